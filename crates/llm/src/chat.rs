//! From messages to a prompt: tools, thoughts, the template; and what the answer may then hold.

use ucuz_text::tools::{self, Facts, Family, Offer, Thoughts, ToolChoice, ToolOffer};
use ucuz_text::{
    AnswerForm, ChatTemplate, Message, RenderOptions, Rendered, THINK_CLOSE, THINK_OPEN, TextError,
    opens_thoughts,
};

use crate::constraint::ConstraintSpec;
use crate::{LlmError, LlmResult};

/// How a model talks: its template, and what of it is known.
pub(crate) struct ChatForm {
    template: ChatTemplate,
    /// Whether the template describes tools itself.
    reads_tools: bool,
    /// Whether the model thinks before it answers.
    thinks: bool,
    /// How it writes calls; `None` when that is not known.
    calls: Option<&'static Family>,
}

/// One conversation.
pub(crate) struct Chat<'a> {
    pub messages: &'a [Message],
    pub tools: Option<&'a ToolOffer>,
    pub now_unix_s: Option<i64>,
    pub output_bytes_max: usize,
}

impl ChatForm {
    pub(crate) fn new(template: ChatTemplate, architecture: &str) -> Self {
        let source = template.source();
        let reads_tools = template.reads_tools();
        let facts = Facts {
            template: source,
            reads_tools,
            architecture,
        };
        Self {
            reads_tools,
            thinks: source.contains(THINK_OPEN) || source.contains(THINK_CLOSE),
            calls: tools::choose(&facts),
            template,
        }
    }

    /// The template as the model brings it.
    pub(crate) fn source(&self) -> &str {
        self.template.source()
    }

    /// The prompt, and what to look for in the answer to it.
    ///
    /// # Errors
    /// `Unsupported` for tools that this model cannot be asked to use so; what the template refuses.
    pub(crate) fn render(&self, chat: &Chat<'_>) -> LlmResult<(Rendered, AnswerForm)> {
        let calls = chat.tools.map(|offer| self.calls_of(offer)).transpose()?;
        let rendered = self.rendered(chat)?;
        let opened = self.thinks.then(|| opens_thoughts(rendered.text()));
        let form = AnswerForm {
            thoughts: opened,
            calls,
            one_call: chat.tools.is_some_and(|offer| !offer.parallel),
        };
        Ok((rendered, form))
    }

    /// What the answer must follow so that it keeps to the offer; `None` where the model is free.
    ///
    /// # Errors
    /// `Invalid` for a schema that cannot be enforced.
    pub(crate) fn enforce(
        &self,
        offer: &ToolOffer,
        form: &AnswerForm,
    ) -> LlmResult<Option<ConstraintSpec>> {
        let is_free =
            offer.choice == ToolChoice::Auto && !offer.tools.iter().any(|tool| tool.strict);
        let Some((family, _)) = form.calls.as_ref().filter(|_| !is_free) else {
            return Ok(None);
        };
        let asked = Offer {
            tools: offer,
            template: self.template.source(),
            thoughts: match form.thoughts {
                None => Thoughts::None,
                Some(false) => Thoughts::Possible,
                Some(true) => Thoughts::Open,
            },
        };
        let source = tools::enforced(family, &asked);
        let source = source.map_err(|error| LlmError::invalid("tools", error.to_string()))?;
        Ok(Some(ConstraintSpec {
            source,
            param: "tools",
        }))
    }

    fn calls_of(&self, offer: &ToolOffer) -> LlmResult<(&'static Family, Vec<String>)> {
        let Some(family) = self.calls else {
            let message = "this model's chat template has a form of tool calls that is not known here; leave tools out";
            return Err(LlmError::unsupported("tools", message));
        };
        Ok((family, offer.names()))
    }

    fn rendered(&self, chat: &Chat<'_>) -> Result<Rendered, TextError> {
        let tools = chat.tools.map_or(&[][..], |offer| &offer.tools);
        let uses_tools = |message: &Message| {
            message.role == "tool" || message.tool_calls.as_ref().is_some_and(|c| !c.is_empty())
        };
        let mut options = RenderOptions {
            now_unix_s: chat.now_unix_s,
            ..RenderOptions::new(chat.output_bytes_max)
        };
        if self.reads_tools {
            let descriptions = tools.iter().map(|tool| tool.description.clone());
            options.tools = (!tools.is_empty()).then(|| descriptions.collect());
            let messages = tools::with_fitting_ids(self.template.source(), chat.messages);
            return self.template.render(&messages, &options);
        }
        if tools.is_empty() && !chat.messages.iter().any(uses_tools) {
            return self.template.render(chat.messages, &options);
        }
        let plain = tools::describe(chat.messages, tools)?;
        self.template.render(&plain, &options)
    }
}
