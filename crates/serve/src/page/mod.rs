//! The files of the page, inside the binary: no build step, nothing from elsewhere.
//!
//! Here: their bytes and where they stand. In `routes/page.rs`: how they are sent. They hold nothing of a server or a
//! client, and are therefore open to everybody (`caller.rs`).

/// One file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PageFile {
    /// Its path in a URL.
    pub path: &'static str,
    /// Its media type.
    pub media_type: &'static str,
    /// What is in it.
    pub text: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// A row of [`FILES`].
macro_rules! file {
    ($path:literal, $media_type:expr, $name:literal) => {
        PageFile {
            path: $path,
            media_type: $media_type,
            text: include_str!($name),
        }
    };
}

/// All of them.
pub(crate) const FILES: &[PageFile] = &[
    file!("/", HTML, "index.html"),
    file!("/page/style.css", CSS, "style.css"),
    file!("/page/chat.css", CSS, "chat.css"),
    file!("/page/live.css", CSS, "live.css"),
    file!("/page/theme.js", SCRIPT, "theme.js"),
    file!("/page/main.js", SCRIPT, "main.js"),
    file!("/page/dom.js", SCRIPT, "dom.js"),
    file!("/page/api.js", SCRIPT, "api.js"),
    file!("/page/store.js", SCRIPT, "store.js"),
    file!("/page/markdown.js", SCRIPT, "markdown.js"),
    file!("/page/chat.js", SCRIPT, "chat.js"),
    file!("/page/conversations.js", SCRIPT, "conversations.js"),
    file!("/page/parameters.js", SCRIPT, "parameters.js"),
    file!("/page/live.js", SCRIPT, "live.js"),
    file!("/page/canvas.js", SCRIPT, "canvas.js"),
    file!("/page/gantt.js", SCRIPT, "gantt.js"),
    file!("/page/blocks.js", SCRIPT, "blocks.js"),
    file!("/page/plots.js", SCRIPT, "plots.js"),
    file!("/page/examples.js", SCRIPT, "examples.js"),
];

/// Whether a file of the page stands at `path`.
pub(crate) fn has(path: &str) -> bool {
    FILES.iter().any(|file| file.path == path)
}
