//! Templates for models that bring none, used only when asked for by name.

/// The names, for error texts.
pub(super) const NAMES: &str = "chatml, gemma, llama3, mistral";

const CHATML: &str = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

const GEMMA: &str = r#"{{ bos_token }}
{%- set ns = namespace(system="") -%}
{%- for message in messages -%}
{%- if message['role'] == 'system' -%}
{%- set ns.system = ns.system + (message['content'] | trim) + '\n\n' -%}
{%- else -%}
{{ '<start_of_turn>' + ('model' if message['role'] == 'assistant' else message['role']) + '\n' }}
{{- ns.system + (message['content'] | trim) + '<end_of_turn>\n' }}
{%- set ns.system = "" -%}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<start_of_turn>model\n' }}{%- endif -%}"#;

const LLAMA3: &str = r#"{{ bos_token }}
{%- for message in messages -%}
{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + (message['content'] | trim) + '<|eot_id|>' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{%- endif -%}"#;

const MISTRAL: &str = r#"{{ bos_token }}
{%- set ns = namespace(system="") -%}
{%- for message in messages -%}
{%- if message['role'] == 'system' -%}
{%- set ns.system = ns.system + message['content'] + '\n\n' -%}
{%- elif message['role'] == 'user' -%}
{{ '[INST] ' + ns.system + message['content'] + ' [/INST]' }}
{%- set ns.system = "" -%}
{%- elif message['role'] == 'assistant' -%}
{{ ' ' + (message['content'] | trim) + eos_token }}
{%- else -%}
{{ raise_exception('Only system, user and assistant roles are supported!') }}
{%- endif -%}
{%- endfor -%}"#;

/// The template of that name.
pub(super) fn source(name: &str) -> Option<&'static str> {
    match name {
        "chatml" => Some(CHATML),
        "gemma" => Some(GEMMA),
        "llama3" => Some(LLAMA3),
        "mistral" => Some(MISTRAL),
        _ => None,
    }
}
