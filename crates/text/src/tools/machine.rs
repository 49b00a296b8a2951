//! What the families have in common: text in which marks announce calls.
//!
//! The machine takes one character after another and its state depends on nothing else, so the events, joined, cannot
//! depend on how a text is cut. What isn't decided yet is `pending`: white space, a piece that may become a mark, a call
//! whose name isn't known. It goes out as text once it can't be a call any more, is dropped once it is one, and never grows
//! beyond [`MAX_HELD_CALL_BYTES`].
//!
//! **The rules.** A call is announced when its name is known and its arguments begin; before that, whatever breaks the form
//! makes all of it text. After that it can't be taken back: a call that breaks off in its arguments ends there, with the
//! arguments so far, and what follows is text. White space directly before a call, and between a call and what ends the
//! answer or is the next call, belongs to the form, not to the text.

use super::call::{CallScan, Step};
use super::{ToolEvent, ToolParser};
use crate::limits::{MAX_HELD_CALL_BYTES, MAX_HELD_SPACE_BYTES, MAX_TOOL_NAME_BYTES};

/// A mark before calls, and the one after them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) open: &'static str,
    /// Empty where nothing ends it.
    pub(super) close: &'static str,
}

/// Calls in another notation than JSON, collected up to the frame's end: names and arguments as JSON texts.
pub(super) type Foreign = fn(&str) -> Option<Vec<(String, String)>>;

/// How a family writes calls.
#[derive(Debug, Clone, Copy)]
pub(super) struct Form {
    pub(super) frames: &'static [Frame],
    /// An object at the very start of the answer is a call, too, when it names a tool that was offered.
    pub(super) bare: bool,
    /// A frame may hold a list of calls.
    pub(super) list: bool,
    /// A frame may hold a name, a mark, and the bare arguments.
    pub(super) named: bool,
    /// What stands between two calls without a frame of their own.
    pub(super) separator: Option<char>,
    /// What a frame may hold that is no JSON.
    pub(super) foreign: Option<Foreign>,
    /// Frames that other text has as well: what they hold counts only when it names a tool that was offered.
    pub(super) is_ambiguous: bool,
}

/// The mark between a name and its arguments, and the one before an id in between.
const NAMED_ARGUMENTS: &str = "[ARGS]";
const NAMED_ID: &str = "[CALL_ID]";

#[derive(Debug)]
enum State {
    /// Text, or what follows a call.
    Between { after: After },
    /// Behind a mark: an object, a list or a name must come.
    Opened { frame: usize, place: Place },
    /// A name that stands before its arguments; `start` is its place in `pending`.
    Name { frame: usize, start: usize },
    /// An object; `start` is its place in `pending`.
    Object {
        at: At,
        start: usize,
        scan: CallScan,
    },
    /// Bare arguments, each character of which goes out.
    Named {
        frame: usize,
        scan: super::json::JsonScan,
    },
    /// Collected up to the frame's end; `start` is its place in `pending`.
    Foreign { frame: usize, start: usize },
    /// Behind an object of a list.
    InList { frame: usize },
}

/// What came before text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    /// Nothing yet but white space.
    Start,
    Text,
    /// A call in this frame, whose end has not been seen (`None`: it has, or there is none).
    Call(Option<usize>),
}

/// Where behind a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    First,
    InList,
    /// Behind a separator: only another object may come.
    Next,
}

/// Where an object stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct At {
    /// `None`: without a frame.
    frame: Option<usize>,
    in_list: bool,
    must_be_offered: bool,
}

/// The parser of all families.
#[derive(Debug)]
pub(super) struct Machine {
    form: Form,
    /// Names of the tools that were offered.
    offered: Vec<String>,
    state: State,
    pending: String,
    /// Calls begun so far.
    num_calls: usize,
}

impl Machine {
    pub(super) fn new(form: Form, offered: Vec<String>) -> Machine {
        Machine {
            form,
            offered,
            state: State::Between {
                after: After::Start,
            },
            pending: String::new(),
            num_calls: 0,
        }
    }

    fn feed(&mut self, letter: char, events: &mut Vec<ToolEvent>) {
        match &self.state {
            State::Between { after } => {
                let after = *after;
                self.pending.push(letter);
                self.between(after, events);
            }
            State::Opened { frame, place } => {
                let (frame, place) = (*frame, *place);
                self.opened(frame, place, letter, events);
            }
            State::Name { frame, start } => {
                let (frame, start) = (*frame, *start);
                self.name(frame, start, letter, events);
            }
            State::Object { .. } => self.object(letter, events),
            State::Named { .. } => self.named(letter, events),
            State::Foreign { frame, start } => {
                let (frame, start) = (*frame, *start);
                self.foreign(frame, start, letter, events);
            }
            State::InList { frame } => {
                let frame = *frame;
                self.in_list(frame, letter, events);
            }
        }
        if self.pending.len() > MAX_HELD_CALL_BYTES {
            self.give_up(events);
        }
    }

    /// Decides as much of `pending` as can be, outside of calls.
    fn between(&mut self, mut after: After, events: &mut Vec<ToolEvent>) {
        loop {
            let trimmed = self.pending.trim_start();
            let space_bytes = self.pending.len() - trimmed.len();
            let Some(first) = trimmed.chars().next() else {
                if space_bytes > MAX_HELD_SPACE_BYTES {
                    self.release(events);
                    after = After::Text;
                }
                break;
            };
            let frames = self.form.frames;
            if let Some(frame) = frames.iter().position(|frame| frame.open == trimmed) {
                self.state = State::Opened {
                    frame,
                    place: Place::First,
                };
                return;
            }
            let close = match after {
                After::Call(Some(frame)) => frames[frame].close,
                _ => "",
            };
            if !close.is_empty() && close == trimmed {
                self.pending.clear();
                after = After::Call(None);
                break;
            }
            if close.starts_with(trimmed) || frames.iter().any(|f| f.open.starts_with(trimmed)) {
                break;
            }
            let is_after_call = matches!(after, After::Call(_));
            if is_after_call && Some(first) == self.form.separator {
                self.state = State::Opened {
                    frame: 0,
                    place: Place::Next,
                };
                return;
            }
            if self.form.bare && after == After::Start && first == '{' {
                self.begin_object(None, false);
                return;
            }
            after = After::Text;
            let rest = self.pending.split_off(space_bytes + first.len_utf8());
            self.release(events);
            self.pending = rest;
        }
        self.state = State::Between { after };
    }

    fn opened(&mut self, frame: usize, place: Place, letter: char, events: &mut Vec<ToolEvent>) {
        let is_first = place == Place::First;
        match letter {
            ' ' | '\t' | '\r' | '\n' => self.pending.push(letter),
            '{' => {
                self.pending.push(letter);
                // A separator stands between objects without frames.
                let frame = (place != Place::Next).then_some(frame);
                self.begin_object(frame, place == Place::InList);
            }
            '[' if is_first && self.form.list => {
                self.pending.push(letter);
                self.state = State::Opened {
                    frame,
                    place: Place::InList,
                };
            }
            _ if is_first && self.form.foreign.is_some() => {
                let start = self.pending.len();
                self.pending.push(letter);
                self.state = State::Foreign { frame, start };
            }
            _ if is_first && self.form.named && is_name_letter(letter) => {
                let start = self.pending.len();
                self.pending.push(letter);
                self.state = State::Name { frame, start };
            }
            _ => self.fail(letter, events),
        }
    }

    fn begin_object(&mut self, frame: Option<usize>, in_list: bool) {
        let mut scan = CallScan::new(frame.is_some() && !self.form.is_ambiguous);
        let start = self.pending.len() - 1;
        // An opening brace is always JSON.
        scan.push("{", '{');
        self.state = State::Object {
            at: At {
                frame,
                in_list,
                must_be_offered: frame.is_none() || self.form.is_ambiguous,
            },
            start,
            scan,
        };
    }

    fn object(&mut self, letter: char, events: &mut Vec<ToolEvent>) {
        let State::Object { at, start, scan } = &mut self.state else {
            return;
        };
        let (at, start) = (*at, *start);
        self.pending.push(letter);
        let had_begun = scan.has_begun();
        let step = scan.push(self.pending.get(start..).unwrap_or_default(), letter);
        let is_known = |name: &String| !at.must_be_offered || self.offered.contains(name);
        match step {
            Step::More => {}
            Step::Arguments => {
                self.pending.clear();
                self.argue(letter.encode_utf8(&mut [0; 4]), events);
            }
            Step::Begin { name } if is_known(&name) => {
                self.pending.clear();
                self.begin_call(name, events);
                self.argue("{", events);
            }
            Step::End { rest: None } => self.end_object(at, events),
            Step::End {
                rest: Some((name, arguments)),
            } if is_known(&name) => {
                let object = self.pending.split_off(start);
                let arguments = arguments.and_then(|range| object.get(range));
                self.begin_call(name, events);
                self.argue(arguments.unwrap_or("{}"), events);
                self.end_object(at, events);
            }
            Step::Begin { .. } | Step::End { .. } | Step::Bad => {
                self.pending.pop();
                if had_begun {
                    self.break_off(at.frame, letter, events);
                } else {
                    // The scan may take it for begun, but nothing was told.
                    self.state = State::Between { after: After::Text };
                    self.fail(letter, events);
                }
            }
        }
    }

    fn end_object(&mut self, at: At, events: &mut Vec<ToolEvent>) {
        self.pending.clear();
        self.end_call(events);
        self.state = match at.frame {
            Some(frame) if at.in_list => State::InList { frame },
            frame => State::Between {
                after: After::Call(frame),
            },
        };
    }

    fn in_list(&mut self, frame: usize, letter: char, events: &mut Vec<ToolEvent>) {
        match letter {
            ' ' | '\t' | '\r' | '\n' => self.pending.push(letter),
            ',' => {
                self.pending.push(letter);
                self.state = State::Opened {
                    frame,
                    place: Place::InList,
                };
            }
            ']' => {
                self.pending.clear();
                self.state = State::Between {
                    after: After::Call(Some(frame)),
                };
            }
            _ => self.fail(letter, events),
        }
    }

    fn name(&mut self, frame: usize, start: usize, letter: char, events: &mut Vec<ToolEvent>) {
        self.pending.push(letter);
        let text = self.pending.get(start..).unwrap_or_default();
        let name_bytes = text
            .find(|letter| !is_name_letter(letter))
            .unwrap_or(text.len());
        let (name, marks) = text.split_at(name_bytes);
        if name_bytes > MAX_TOOL_NAME_BYTES || marks.len() > MAX_TOOL_NAME_BYTES {
            self.pending.pop();
            return self.fail(letter, events);
        }
        match named_marks(marks) {
            Marks::Unfinished => {}
            Marks::Whole => {
                let name = name.to_owned();
                let mut scan = super::json::JsonScan::new();
                scan.push('{');
                self.pending.clear();
                self.begin_call(name, events);
                self.argue("{", events);
                self.state = State::Named { frame, scan };
            }
            Marks::Wrong => {
                self.pending.pop();
                self.fail(letter, events);
            }
        }
    }

    fn named(&mut self, letter: char, events: &mut Vec<ToolEvent>) {
        let State::Named { frame, scan } = &mut self.state else {
            return;
        };
        let frame = *frame;
        if scan.push(letter).is_none() {
            return self.break_off(Some(frame), letter, events);
        }
        let is_done = scan.is_done();
        self.argue(letter.encode_utf8(&mut [0; 4]), events);
        if is_done {
            self.end_call(events);
            self.state = State::Between {
                after: After::Call(Some(frame)),
            };
        }
    }

    fn foreign(&mut self, frame: usize, start: usize, letter: char, events: &mut Vec<ToolEvent>) {
        self.pending.push(letter);
        let close = self.form.frames[frame].close;
        let text = self.pending.get(start..).unwrap_or_default();
        let Some(body) = text.strip_suffix(close) else {
            return;
        };
        let calls = self.form.foreign.and_then(|read| read(body.trim()));
        let is_known =
            |(name, _): &(String, String)| !self.form.is_ambiguous || self.offered.contains(name);
        match calls.filter(|calls| !calls.is_empty() && calls.iter().all(is_known)) {
            Some(calls) => {
                self.pending.clear();
                for (name, arguments) in calls {
                    self.begin_call(name, events);
                    self.argue(&arguments, events);
                    self.end_call(events);
                }
                self.state = State::Between {
                    after: After::Call(None),
                };
            }
            None => self.give_up(events),
        }
    }

    /// What is pending is no call; `letter` comes behind it.
    fn fail(&mut self, letter: char, events: &mut Vec<ToolEvent>) {
        self.give_up(events);
        self.feed(letter, events);
    }

    /// What is pending is text. A call that has begun ends.
    fn give_up(&mut self, events: &mut Vec<ToolEvent>) {
        let is_open = match &self.state {
            State::Object { scan, .. } => scan.has_begun(),
            State::Named { .. } => true,
            _ => false,
        };
        if is_open {
            self.end_call(events);
        }
        self.release(events);
        self.state = State::Between { after: After::Text };
    }

    /// A call that has begun breaks off before `letter`.
    fn break_off(&mut self, frame: Option<usize>, letter: char, events: &mut Vec<ToolEvent>) {
        self.end_call(events);
        let is_space = self.pending.trim_start().is_empty();
        if !is_space {
            self.release(events);
        }
        // The mark at the end of the frame may still come.
        let after = After::Call(frame);
        self.state = State::Between { after };
        self.feed(letter, events);
    }

    fn release(&mut self, events: &mut Vec<ToolEvent>) {
        let text = std::mem::take(&mut self.pending);
        match events.last_mut() {
            _ if text.is_empty() => {}
            Some(ToolEvent::Text(before)) => before.push_str(&text),
            _ => events.push(ToolEvent::Text(text)),
        }
    }

    fn begin_call(&mut self, name: String, events: &mut Vec<ToolEvent>) {
        let index = self.num_calls;
        self.num_calls += 1;
        events.push(ToolEvent::CallBegin { index, name });
    }

    fn argue(&mut self, text: &str, events: &mut Vec<ToolEvent>) {
        let index = self.num_calls.saturating_sub(1);
        match events.last_mut() {
            Some(ToolEvent::Arguments { delta, .. }) => delta.push_str(text),
            _ => events.push(ToolEvent::Arguments {
                index,
                delta: text.to_owned(),
            }),
        }
    }

    fn end_call(&mut self, events: &mut Vec<ToolEvent>) {
        let index = self.num_calls.saturating_sub(1);
        events.push(ToolEvent::CallEnd { index });
    }
}

impl ToolParser for Machine {
    fn push(&mut self, text: &str, events: &mut Vec<ToolEvent>) {
        for letter in text.chars() {
            self.feed(letter, events);
        }
    }

    fn finish(&mut self, events: &mut Vec<ToolEvent>) {
        let is_after_call = matches!(
            self.state,
            State::Between {
                after: After::Call(_)
            } | State::InList { .. }
        );
        let has_begun = matches!(&self.state, State::Object { scan, .. } if scan.has_begun());
        if (is_after_call || has_begun) && self.pending.trim_start().is_empty() {
            self.pending.clear();
        }
        self.give_up(events);
    }
}

fn is_name_letter(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.')
}

/// What stands between a name and the end of the text so far.
enum Marks {
    Unfinished,
    /// Up to and with the brace that opens the arguments.
    Whole,
    Wrong,
}

/// `[ARGS]{`, `[CALL_ID]id[ARGS]{` or `{`, with white space before the brace.
fn named_marks(marks: &str) -> Marks {
    let mut rest = marks;
    if let Some(id) = rest.strip_prefix(NAMED_ID) {
        rest = id.trim_start_matches(is_name_letter);
        // An id is followed by the mark of the arguments.
        if rest.starts_with('{') {
            return Marks::Wrong;
        }
    }
    if let Some(arguments) = rest.strip_prefix(NAMED_ARGUMENTS) {
        rest = arguments;
    } else if NAMED_ARGUMENTS.starts_with(rest) || NAMED_ID.starts_with(rest) {
        return Marks::Unfinished;
    }
    match rest.trim_start_matches([' ', '\n', '\t', '\r']) {
        "" => Marks::Unfinished,
        "{" => Marks::Whole,
        _ => Marks::Wrong,
    }
}
