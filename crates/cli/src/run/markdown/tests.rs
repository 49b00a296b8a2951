use super::*;

/// What a text looks like; `[bold,code:...]` for styled runs, which is easier to read than escapes.
fn look(text: &str) -> String {
    let mut shown = show(&[text]);
    for (code, name) in [
        ("\x1b[0m", "}"),
        ("\x1b[1m", "{bold:"),
        ("\x1b[1;4m", "{title:"),
        ("\x1b[2m", "{dim:"),
        ("\x1b[3m", "{italic:"),
        ("\x1b[9m", "{strike:"),
        ("\x1b[36m", "{code:"),
        ("\x1b[1;3m", "{bold italic:"),
        ("\x1b[1;36m", "{bold code:"),
        ("\x1b[3;36m", "{italic code:"),
    ] {
        shown = shown.replace(code, name);
    }
    assert!(!shown.contains('\x1b'), "{shown:?}");
    shown
}

fn show(pieces: &[&str]) -> String {
    let (mut markdown, mut shown) = (Markdown::new(), String::new());
    for piece in pieces {
        markdown.push(piece, &mut shown);
    }
    markdown.finish(&mut shown);
    shown
}

#[test]
fn marks_become_styles() {
    for (text, shown) in [
        ("plain words", "plain words"),
        ("a **bold** word", "a {bold:bold} word"),
        (
            "an *italic* and _another_",
            "an {italic:italic} and {italic:another}",
        ),
        ("__bold__ ~~gone~~", "{bold:bold} {strike:gone}"),
        ("***both***", "{bold italic:both}"),
        ("**a *b* c**", "{bold:a }{bold italic:b}{bold: c}"),
        ("*a **b***", "{italic:a }{bold italic:b}"),
        ("use `x * y * z`", "use {code:x * y * z}"),
        ("`` a`b `` end", "{code:a`b} end"),
        (
            "**call `f(*a)` now**",
            "{bold:call }{bold code:f(*a)}{bold: now}",
        ),
        (
            "*use `a*b` here*",
            "{italic:use }{italic code:a*b}{italic: here}",
        ),
        ("这是**粗体**字", "这是{bold:粗体}字"),
        (r"\*not\* and \(x\)", r"*not* and \(x\)"),
        ("# Title\ntext", "{title:Title}\ntext"),
        ("### A **b** `c`", "{bold:A b }{bold code:c}"),
        (
            "- one\n  * two\n+ three",
            "{dim:• }one\n  {dim:• }two\n{dim:• }three",
        ),
        ("1. **one**\n2) two", "1. {bold:one}\n2) two"),
        ("> said\n> - item", "{dim:│ }said\n{dim:│ • }item"),
        ("---\n* * *\n___", "{dim:R}\n{dim:R}\n{dim:R}"),
        (
            "```rust\nlet a = *b;\n\n# c\n```\n*d*",
            "{dim:```rust}\n{code:let a = *b;}\n\n{code:# c}\n{dim:```}\n{italic:d}",
        ),
        (
            "   ~~~\n  ```\n   ~~~~ \nx",
            "{dim:   ~~~}\n{code:  ```}\n{dim:   ~~~~ }\nx",
        ),
    ] {
        assert_eq!(look(text), shown.replace('R', RULE), "{text:?}");
    }
}

#[test]
fn what_is_no_mark_stays_as_it_is_written() {
    for text in [
        "2 * 3 * 4 and 2*3*4 and 2**3 ** 4",
        "f(**kwargs) and *args",
        "snake_case_words and __init",
        "an open **bold\nnot closed**",
        "a ` and `` b",
        "#hashtag\n####### seven\n#",
        "-5 degrees\n+1\n--",
        "| a | b |\n|---|---|",
        "[link](https://example.com/a_b_c)",
        "C:\\dir and \\",
        "**** and ~ and ~~~",
        "  indented\n\n    more\n   ",
        "~~ a ~~",
        "```inline``` x `",
        "",
    ] {
        let expected = text.replace("```inline```", "\x1b[36minline\x1b[0m");
        assert_eq!(show(&[text]), expected, "{text:?}");
    }
}

#[test]
fn text_is_shown_before_its_line_ends() {
    let mut markdown = Markdown::new();
    let mut shown = String::new();
    markdown.push("Some words, then **bo", &mut shown);
    assert_eq!(shown, "Some words, then ");
    markdown.push("ld** and", &mut shown);
    assert_eq!(shown, "Some words, then \x1b[1mbold\x1b[0m and");
    markdown.push("\n```\nlet", &mut shown);
    assert!(shown.ends_with("\x1b[36mlet"), "{shown:?}");
}

#[test]
fn what_never_closes_is_held_back_only_so_far() {
    for opening in ["**", "`", "*", "~~", "_"] {
        let mut markdown = Markdown::new();
        let mut shown = String::new();
        let text = format!("x {opening}{}", "word ".repeat(block::HELD_BYTES_MAX));
        for (at, c) in text.char_indices() {
            markdown.push(c.encode_utf8(&mut [0; 4]), &mut shown);
            let held = at + c.len_utf8() - shown.len();
            assert!(held <= block::HELD_BYTES_MAX, "{opening}: {held} held");
        }
        markdown.finish(&mut shown);
        assert_eq!(shown, text);
    }
    for line in ["-", "#", "`", " ", ">", "*", "\\", "- ", "~"] {
        let text = line.repeat(5000);
        let shown = show(&[&text]);
        assert!(shown.len() >= text.len() / 2, "{line:?} is lost");
    }
}

/// Everything that the subset knows, and what looks like it.
const SAMPLE: &str = "# A *title*\n\nWords with **bold**, *italic*, ***both***, `code` and ``a ` b``. 2 * 3 * 4.\n\n- item\n  - **nested** `x`\n\
    1. one\n---\n> quote *it*\n> # deep\n\n```python\ndef f(*a, **k):\n    return `x`\n``\n```\n* * *\n~~gone~~ \\*kept\\* 漢字**粗**字 \u{1f469}\u{200d}\u{1f680}\n\
    **open\n`open\n    indented * text *\n~~~~\n```\n~~~~\n***";

/// Numbers of a linear congruence: cuts that are the same every time.
fn cuts(seed: u32) -> impl Iterator<Item = usize> {
    let mut state = seed;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as usize % 9 + 1
    })
}

fn pieces(text: &str, seed: u32) -> Vec<&str> {
    let (mut pieces, mut rest) = (Vec::new(), text);
    for len in cuts(seed) {
        let end = rest
            .char_indices()
            .nth(len)
            .map_or(rest.len(), |(at, _)| at);
        pieces.push(&rest[..end]);
        rest = &rest[end..];
        if rest.is_empty() {
            break;
        }
    }
    pieces
}

#[test]
fn how_a_text_is_cut_changes_no_byte() {
    let whole = show(&[SAMPLE]);
    assert!(whole.matches('\x1b').count() > 40, "{whole:?}");
    for cut in (0..SAMPLE.len()).filter(|cut| SAMPLE.is_char_boundary(*cut)) {
        assert_eq!(
            show(&[&SAMPLE[..cut], &SAMPLE[cut..]]),
            whole,
            "cut at {cut}"
        );
    }
    for seed in 0..200 {
        assert_eq!(show(&pieces(SAMPLE, seed)), whole, "seed {seed}");
    }
}

/// Random texts of marks, letters and newlines: cut or not, the same; no letter lost, and the terminal's style given back.
#[test]
fn random_texts_lose_no_word_and_leave_no_style() {
    let letters = [
        "*", "**", "_", "`", "```", "~~", "#", "-", ">", " ", "\n", "\\", "a", "b1", "漢",
    ];
    for seed in 0..3000 {
        let text: String = cuts(seed)
            .zip(cuts(seed ^ 0xabcd))
            .take(40)
            .map(|(a, b)| letters[(a * 9 + b) % letters.len()])
            .collect();
        let whole = show(&[&text]);
        assert_eq!(show(&pieces(&text, seed)), whole, "{text:?}");
        let last = whole.rsplit('\x1b').next().unwrap_or_default();
        let is_clean = !whole.contains('\x1b') || last.starts_with("[0m");
        assert!(is_clean, "{text:?} leaves a style: {whole:?}");
        let is_word = |c: &char| matches!(c, 'a' | '漢' | '\n');
        let words = |text: &str| text.chars().filter(is_word).collect::<String>();
        assert_eq!(words(&whole), words(&text), "{text:?}");
    }
}
