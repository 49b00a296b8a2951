//! Where a checkpoint keeps its chat templates: found here, rendered elsewhere.

use std::path::Path;

use serde::Deserialize;

use crate::error::{FormatError, Place};
use crate::gguf::GgufFile;
use crate::hf::read_bounded;
use crate::limits;

/// The default template and the others by name.
#[derive(Debug, Default)]
pub(crate) struct Templates {
    pub(crate) default: Option<String>,
    pub(crate) named: Vec<(String, String)>,
}

impl Templates {
    fn put(&mut self, name: &str, template: String) -> Result<(), FormatError> {
        if template.len() as u64 > limits::TEMPLATE_BYTES_MAX {
            let rule = format!(
                "a template has at most {} bytes",
                limits::TEMPLATE_BYTES_MAX
            );
            return Err(FormatError::damaged(
                Place::key("chat_template"),
                rule,
                template.len(),
            ));
        }
        if name == "default" {
            self.default = Some(template);
            return Ok(());
        }
        if self.named.len() >= limits::TEMPLATES_MAX {
            let rule = format!(
                "there are at most {} named templates",
                limits::TEMPLATES_MAX
            );
            return Err(FormatError::damaged(
                Place::key("chat_template"),
                rule,
                "more",
            ));
        }
        self.named.push((name.to_owned(), template));
        Ok(())
    }
}

/// `tokenizer.chat_template` and `tokenizer.chat_template.{name}`.
pub(crate) fn of_gguf(file: &GgufFile<'_>) -> Result<Templates, FormatError> {
    let mut templates = Templates::default();
    let prefix = "tokenizer.chat_template";
    let keys: Vec<&str> = file.keys().map(|(key, _)| key).collect();
    for key in keys {
        let name = match key.strip_prefix(prefix) {
            Some("") => "default",
            Some(rest) => match rest.strip_prefix('.') {
                Some(name) => name,
                None => continue,
            },
            None => continue,
        };
        if let Some(template) = file.text(key)? {
            templates.put(name, template.to_owned())?;
        }
    }
    Ok(templates)
}

#[derive(Deserialize)]
struct WithTemplate {
    #[serde(default)]
    chat_template: Option<OneOrMore>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<Named>),
}

#[derive(Deserialize)]
struct Named {
    name: String,
    template: String,
}

/// The templates of a folder: `chat_template.jinja`, else `tokenizer_config.json` (its bytes), else `chat_template.json`.
pub(crate) fn of_folder(
    folder: &Path,
    tokenizer_config: Option<&[u8]>,
) -> Result<Templates, FormatError> {
    let mut templates = Templates::default();
    if let Some(bytes) = tokenizer_config {
        let file = folder.join("tokenizer_config.json");
        put_json(&mut templates, bytes).map_err(|e| e.in_file(&file))?;
    }
    let jinja = folder.join("chat_template.jinja");
    if let Some(bytes) = read_bounded(&jinja, limits::TEMPLATE_BYTES_MAX)? {
        let text = String::from_utf8(bytes).map_err(|e| {
            FormatError::damaged(Place::File, "a template is UTF-8", e.utf8_error()).in_file(&jinja)
        })?;
        templates.default = Some(text);
    }
    if templates.default.is_none() && templates.named.is_empty() {
        let json = folder.join("chat_template.json");
        if let Some(bytes) = read_bounded(&json, limits::SIDE_FILE_BYTES_MAX)? {
            put_json(&mut templates, &bytes).map_err(|e| e.in_file(&json))?;
        }
    }
    Ok(templates)
}

fn put_json(templates: &mut Templates, bytes: &[u8]) -> Result<(), FormatError> {
    let parsed: WithTemplate = serde_json::from_slice(bytes).map_err(|e| {
        let rule = "the file is JSON and chat_template a string or a list of name and template";
        FormatError::damaged(Place::key("chat_template"), rule, e)
    })?;
    match parsed.chat_template {
        None => Ok(()),
        Some(OneOrMore::One(template)) => templates.put("default", template),
        Some(OneOrMore::More(list)) => list
            .into_iter()
            .try_for_each(|t| templates.put(&t.name, t.template)),
    }
}
