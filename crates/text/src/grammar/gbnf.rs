//! GBNF, the grammars of llama.cpp, rewritten as Lark: [`to_lark`].
//!
//! Rules become rules, literals and character classes terminals. As in Lark, the longest terminal that fits is taken, so
//! where two of them begin alike some texts of the grammar are never written; none is written that is not of it.
//! Not supported, and refused: tokens in angle brackets.
//!
//! Source of the syntax: llama.cpp, `grammars/README.md` and `src/llama-grammar.cpp`.

use std::collections::HashMap;
use std::fmt::Write;
use std::iter::Peekable;
use std::str::Chars;

use crate::limits::MAX_VALUE_DEPTH;

type Parsed<T> = Result<T, String>;

/// Whether a grammar is written in GBNF.
pub(super) fn is_gbnf(text: &str) -> bool {
    text.contains("::=")
}

/// The same grammar in Lark.
///
/// # Errors
/// The line, and what is wrong in it.
pub(super) fn to_lark(text: &str) -> Parsed<String> {
    let mut reader = Reader {
        rest: text.chars().peekable(),
        line: 1,
        names: HashMap::new(),
        lark: String::new(),
    };
    let rules = reader.rules();
    rules.map_err(|error| format!("line {}: {error}", reader.line))?;
    if let Some((name, _)) = reader.names.iter().find(|(_, rule)| !rule.is_defined) {
        return Err(format!("rule {name:?} is used and not defined"));
    }
    match reader.names.get("root") {
        Some(root) => Ok(format!("start: r{}\n{}", root.index, reader.lark)),
        None => Err("there is no rule named root".to_owned()),
    }
}

struct Rule {
    index: usize,
    is_defined: bool,
}

struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
    line: usize,
    names: HashMap<String, Rule>,
    lark: String,
}

impl Reader<'_> {
    fn rules(&mut self) -> Parsed<()> {
        loop {
            self.skip_blanks(true);
            if self.rest.peek().is_none() {
                return Ok(());
            }
            let name = self.name()?;
            let rule = self.rule(&name);
            if std::mem::replace(&mut rule.is_defined, true) {
                return Err(format!("rule {name:?} is defined twice"));
            }
            let index = rule.index;
            let _ = write!(self.lark, "r{index}: ");
            self.skip_blanks(false);
            for expected in "::=".chars() {
                if self.next() != Some(expected) {
                    return Err(format!("\"::=\" is missing after rule {name:?}"));
                }
            }
            self.skip_blanks(true);
            self.alternatives(0)?;
            self.lark.push('\n');
            if !matches!(self.rest.peek(), None | Some('\n')) {
                return Err("the rule does not end with its line".to_owned());
            }
        }
    }

    fn rule(&mut self, name: &str) -> &mut Rule {
        let index = self.names.len();
        self.names.entry(name.to_owned()).or_insert(Rule {
            index,
            is_defined: false,
        })
    }

    fn next(&mut self) -> Option<char> {
        let next = self.rest.next();
        self.line += usize::from(next == Some('\n'));
        next
    }

    /// Skips blanks and comments, and ends of lines too when the rule goes on.
    fn skip_blanks(&mut self, over_lines: bool) {
        while let Some(&next) = self.rest.peek() {
            match next {
                ' ' | '\t' | '\r' => {}
                '\n' if over_lines => {}
                '#' => {
                    while self.rest.next_if(|&next| next != '\n').is_some() {}
                    continue;
                }
                _ => return,
            }
            self.next();
        }
    }

    fn alternatives(&mut self, depth: usize) -> Parsed<()> {
        if depth > MAX_VALUE_DEPTH {
            return Err(format!("nested deeper than {MAX_VALUE_DEPTH} levels"));
        }
        loop {
            self.sequence(depth)?;
            if self.rest.next_if_eq(&'|').is_none() {
                return Ok(());
            }
            self.lark.push_str("| ");
            self.skip_blanks(true);
        }
    }

    fn sequence(&mut self, depth: usize) -> Parsed<()> {
        let mut is_empty = true;
        loop {
            self.skip_blanks(depth > 0);
            let Some(&next) = self.rest.peek() else { break };
            match next {
                '"' => self.literal()?,
                '[' => self.class()?,
                '.' => {
                    self.next();
                    self.lark.push_str("/(?s:.)/");
                }
                '(' => {
                    self.next();
                    self.lark.push('(');
                    self.skip_blanks(true);
                    self.alternatives(depth + 1)?;
                    if self.next() != Some(')') {
                        return Err("a parenthesis is not closed".to_owned());
                    }
                    self.lark.push(')');
                }
                next if is_word(next) => {
                    let name = self.name()?;
                    let index = self.rule(&name).index;
                    let _ = write!(self.lark, "r{index}");
                }
                '|' | ')' | '\n' => break,
                other => return Err(format!("{other:?} is not expected here")),
            }
            is_empty = false;
            self.repetition()?;
            self.lark.push(' ');
        }
        if is_empty {
            self.lark.push_str("\"\" ");
        }
        Ok(())
    }

    fn repetition(&mut self) -> Parsed<()> {
        self.skip_blanks(false);
        match self.rest.peek() {
            Some(&operator @ ('*' | '+' | '?')) => {
                self.next();
                self.lark.push(operator);
                Ok(())
            }
            Some('{') => {
                self.next();
                let mut bounds = String::new();
                while let Some(next) = self.rest.next_if(|next| *next != '}' && *next != '\n') {
                    bounds.push(next);
                }
                if self.next() != Some('}') {
                    return Err("a repetition is not closed".to_owned());
                }
                self.bounds(&bounds)
            }
            _ => Ok(()),
        }
    }

    fn bounds(&mut self, text: &str) -> Parsed<()> {
        let number = |text: &str| {
            let text = text.trim();
            let number = text.parse::<u16>();
            number.map_err(|_| format!("{text:?} is not a number of repetitions"))
        };
        let (least, most) = match text.split_once(',') {
            None => (number(text)?, Some(number(text)?)),
            Some((least, most)) if most.trim().is_empty() => (number(least)?, None),
            Some((least, most)) if least.trim().is_empty() => (0, Some(number(most)?)),
            Some((least, most)) => (number(least)?, Some(number(most)?)),
        };
        let _ = match most {
            Some(most) => write!(self.lark, "{{{least},{most}}}"),
            None => write!(self.lark, "{{{least},}}"),
        };
        Ok(())
    }

    fn name(&mut self) -> Parsed<String> {
        let mut name = String::new();
        while let Some(next) = self.rest.next_if(|&next| is_word(next)) {
            name.push(next);
        }
        match name.is_empty() {
            true => Err("a rule's name is missing".to_owned()),
            false => Ok(name),
        }
    }

    fn literal(&mut self) -> Parsed<()> {
        self.next();
        let mut text = String::new();
        loop {
            match self.next() {
                None | Some('\n') => return Err("a literal is not closed".to_owned()),
                Some('"') => break,
                Some('\\') => text.push(self.escape()?),
                Some(other) => text.push(other),
            }
        }
        if text.is_empty() {
            self.lark.push_str("\"\"");
            return Ok(());
        }
        self.lark.push('/');
        text.chars().for_each(|letter| self.letter(letter));
        self.lark.push('/');
        Ok(())
    }

    fn class(&mut self) -> Parsed<()> {
        self.next();
        self.lark.push_str("/[");
        if self.rest.next_if_eq(&'^').is_some() {
            self.lark.push('^');
        }
        let mut is_empty = true;
        loop {
            let first = match self.next() {
                None | Some('\n') => return Err("a class is not closed".to_owned()),
                Some(']') if is_empty => return Err("a class is empty".to_owned()),
                Some(']') => break,
                Some('\\') => self.escape()?,
                Some(other) => other,
            };
            is_empty = false;
            self.letter(first);
            // A minus before the end is one.
            let mut ahead = self.rest.clone();
            if ahead.next() == Some('-') && ahead.next() != Some(']') {
                self.next();
                let last = match self.next() {
                    None | Some('\n') => return Err("a class is not closed".to_owned()),
                    Some('\\') => self.escape()?,
                    Some(other) => other,
                };
                if last < first {
                    return Err(format!("the range {first:?} to {last:?} runs backwards"));
                }
                self.lark.push('-');
                self.letter(last);
            }
        }
        self.lark.push_str("]/");
        Ok(())
    }

    /// Writes one letter so that it means nothing else in an expression.
    fn letter(&mut self, letter: char) {
        let _ = match letter.is_ascii_alphanumeric() {
            true => write!(self.lark, "{letter}"),
            false => write!(self.lark, "\\x{{{:x}}}", u32::from(letter)),
        };
    }

    fn escape(&mut self) -> Parsed<char> {
        let digits = match self.next() {
            Some('n') => return Ok('\n'),
            Some('r') => return Ok('\r'),
            Some('t') => return Ok('\t'),
            Some(itself @ ('\\' | '"' | '[' | ']' | '-' | '^')) => return Ok(itself),
            Some('x') => 2,
            Some('u') => 4,
            Some('U') => 8,
            other => return Err(format!("the escape of {other:?} is not known")),
        };
        let mut code = 0u32;
        for _ in 0..digits {
            let digit = self.next().and_then(|digit| digit.to_digit(16));
            let digit = digit.ok_or("an escape lacks hexadecimal digits")?;
            code = code << 4 | digit;
        }
        char::from_u32(code).ok_or_else(|| format!("{code:x} is not a character"))
    }
}

fn is_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '-' || letter == '_'
}
