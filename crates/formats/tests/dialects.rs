//! What the dialects of checkpoints mean: names, windows, rope forms, defaults, templates, both writers.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::path::Path;

use common::{RawGguf, config, hf_tensors, safetensors_file, strings, tensors};
use serde_json::{Value, json};
use ucuz_formats::config::{GenerationDefaults, ModelConfig, RopeScaling, TokenizerSource};
use ucuz_formats::{Checkpoint, config_json, generation, gguf, safetensors};
use ucuz_tensor::Format;

fn open_gguf(file: &RawGguf) -> Checkpoint {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.gguf");
    std::fs::write(&path, file.encode()).unwrap();
    Checkpoint::open(&path).unwrap()
}

fn write_folder(folder: &Path, config: &Value, weights: &[u8]) {
    std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
    std::fs::write(folder.join("model.safetensors"), weights).unwrap();
}

/// The tiny configuration with changes; null removes a key.
fn parsed(changes: Value) -> ModelConfig {
    let mut all = config();
    for (key, value) in changes.as_object().unwrap() {
        all[key.as_str()] = value.clone();
        if value == "absent" {
            all.as_object_mut().unwrap().remove(key);
        }
    }
    config_json::parse(all.to_string().as_bytes())
        .map(|c| c.config)
        .unwrap()
}

#[test]
fn the_gguf_writer_writes_what_the_reader_reads() {
    for alignment in [8, 32, 4096] {
        let file = gguf::Writer::new()
            .alignment(alignment)
            .string("s", "text")
            .f32("f", 0.5)
            .bool("b", true)
            .f32s("fs", &[1.0, 2.0])
            .i32s("is", &[-1, 2])
            .strings("ss", &["a", "bc"])
            .tensor("one", Format::Q8_0, &[2, 32], &[7; 68])
            .tensor("two", Format::BF16, &[3], &[1, 2, 3, 4, 5, 6])
            .finish();
        let read = gguf::parse(&file).unwrap();
        assert_eq!((read.version, read.alignment), (3, u64::from(alignment)));
        assert_eq!(read.text("s").unwrap(), Some("text"));
        assert_eq!(read.float("f").unwrap(), Some(0.5));
        assert_eq!(read.boolean("b").unwrap(), Some(true));
        assert_eq!(
            read.array("fs")
                .unwrap()
                .unwrap()
                .floats()
                .unwrap()
                .sum::<f32>(),
            3.0
        );
        assert_eq!(
            read.array("is").unwrap().unwrap().integers().unwrap().min(),
            Some(-1)
        );
        let texts: Vec<_> = read
            .array("ss")
            .unwrap()
            .unwrap()
            .strings()
            .unwrap()
            .collect();
        assert_eq!(texts, [&b"a"[..], b"bc"]);
        assert_eq!(read.tensors[0].shape, [2, 32]);
        assert_eq!(file[read.tensors[0].span.clone()], [7; 68]);
        assert_eq!(file[read.tensors[1].span.clone()], [1, 2, 3, 4, 5, 6]);
        assert!(
            read.tensors
                .iter()
                .all(|t| t.span.start % alignment as usize == 0)
        );
    }
}

#[test]
fn safetensors_agree_with_the_safetensors_crate() {
    let ours = safetensors_file(&hf_tensors());
    let theirs = ::safetensors::SafeTensors::deserialize(&ours).unwrap();
    assert_eq!(theirs.len(), hf_tensors().len());
    let data = [0u8; 24];
    let view = |dtype, shape: &[usize], bytes| {
        ::safetensors::tensor::TensorView::new(dtype, shape.to_vec(), bytes).unwrap()
    };
    let written = ::safetensors::serialize(
        [
            ("a", view(::safetensors::Dtype::F32, &[2, 3], &data[..])),
            ("b", view(::safetensors::Dtype::BF16, &[4], &data[..8])),
            ("c", view(::safetensors::Dtype::I64, &[], &data[..8])),
            ("d", view(::safetensors::Dtype::U8, &[0, 7], &data[..0])),
        ],
        Some([("format".to_owned(), "pt".to_owned())].into()),
    )
    .unwrap();
    let read = safetensors::parse(&written).unwrap();
    let mut found: Vec<_> = read
        .iter()
        .map(|t| (t.name.as_str(), t.dtype.name, t.shape.clone(), t.span.len()))
        .collect();
    found.sort();
    assert_eq!(
        found,
        [
            ("a", "F32", vec![2, 3], 24),
            ("b", "BF16", vec![4], 8),
            ("c", "I64", vec![], 8),
            ("d", "U8", vec![0, 7], 0),
        ]
    );
}

#[test]
fn rope_forms_mean_the_same() {
    let llama3 = |rope: &RopeScaling| matches!(rope, RopeScaling::Llama3 { factor: 32.0, .. });
    let ramp = json!({"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "rope_theta": 5e5,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 8192});
    for key in ["rope_scaling", "rope_parameters"] {
        let rope = parsed(json!({ key: ramp, "rope_theta": 500_000.0 })).rope;
        assert!(
            llama3(&rope.scaling) && rope.theta == 5e5,
            "{key}: {rope:?}"
        );
    }
    let cases = [
        (json!({"rope_scaling": null}), RopeScaling::None),
        (
            json!({"rope_scaling": {"rope_type": "default"}}),
            RopeScaling::None,
        ),
        (
            json!({"rope_scaling": {"type": "linear", "factor": 2}}),
            RopeScaling::Linear { factor: 2.0 },
        ),
        (
            json!({"rope_parameters": {"rope_type": "linear", "factor": 2.0}}),
            RopeScaling::Linear { factor: 2.0 },
        ),
    ];
    for (changes, scaling) in cases {
        let rope = parsed(changes.clone()).rope;
        assert_eq!((rope.scaling, rope.theta), (scaling, 1e4), "{changes}");
    }
    assert_eq!(
        parsed(json!({"partial_rotary_factor": 0.5}))
            .rope
            .rotary_dim,
        8
    );
    assert_eq!(parsed(json!({"rope_theta": "absent"})).rope.theta, 1e4);
}

#[test]
fn windows_follow_each_family() {
    let mistral = |window: Value| {
        parsed(json!({"architectures": ["MistralForCausalLM"], "sliding_window": window}))
    };
    assert_eq!(mistral(json!(64)).window, Some(64));
    assert!(mistral(json!(64)).slides(0));
    assert_eq!(mistral(json!(null)).window, None);
    assert_eq!(
        mistral(json!("absent")).window,
        Some(4096),
        "the class's default"
    );
    let qwen = |used: bool, first: u64| {
        parsed(
            json!({"architectures": ["Qwen2ForCausalLM"], "num_hidden_layers": 4,
            "use_sliding_window": used, "sliding_window": 8, "max_window_layers": first}),
        )
    };
    assert_eq!(qwen(false, 0).window, None);
    assert_eq!(qwen(true, 2).sliding, [false, false, true, true]);
    assert_eq!(qwen(true, 0).sliding, [true; 4]);
    assert_eq!(qwen(true, 4).window, None, "no layer slides");
    assert_eq!(
        parsed(json!({"sliding_window": 8})).window,
        None,
        "llama has none"
    );
}

#[test]
fn null_and_absent_head_counts_follow_the_class() {
    assert_eq!(parsed(json!({"num_key_value_heads": null})).kv_heads, 2);
    assert_eq!(parsed(json!({"num_key_value_heads": "absent"})).kv_heads, 2);
    assert_eq!(parsed(json!({"head_dim": null})).head_dim, 16);
    let qwen3 = json!({"architectures": ["Qwen3ForCausalLM"]});
    assert_eq!(parsed(qwen3).head_dim, 128, "the class's default");
}

/// The published multimodal configuration names little more than sizes.
fn gemma_multimodal() -> Value {
    json!({
        "architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3",
        "vision_config": {"hidden_size": 1152, "model_type": "siglip_vision_model"},
        "text_config": {
            "model_type": "gemma3_text", "hidden_size": 32, "intermediate_size": 64,
            "num_hidden_layers": 7, "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
            "sliding_window": 1024
        },
    })
}

#[test]
fn a_sparse_gemma_text_config_takes_the_published_defaults() {
    let c = config_json::parse(gemma_multimodal().to_string().as_bytes()).unwrap();
    let config = c.config;
    assert!(c.tied);
    assert_eq!(
        (config.vocab, config.heads, config.kv_heads, config.head_dim),
        (262_208, 8, 4, 256)
    );
    assert_eq!((config.rope.theta, config.context), (1e6, 131_072));
    assert_eq!(config.rope.scaling, RopeScaling::Linear { factor: 8.0 });
    let local = config.rope_local.unwrap();
    assert_eq!((local.theta, local.scaling), (1e4, RopeScaling::None));
    assert_eq!(config.sliding, [true, true, true, true, true, false, true]);
    assert_eq!((config.window, config.norm_offset), (Some(1024), 1.0));
    assert_eq!(config.attention_scale, 0.0625);
    assert_eq!(config.embedding_scale, 32f32.sqrt());
}

#[test]
fn multimodal_text_weights_are_found_and_vision_is_left() {
    let mut config = gemma_multimodal();
    let text = &mut config["text_config"];
    for (key, value) in [
        ("num_hidden_layers", 1),
        ("vocab_size", 8),
        ("num_attention_heads", 2),
        ("num_key_value_heads", 1),
        ("head_dim", 16),
    ] {
        text[key] = json!(value);
    }
    let mut names = hf_tensors();
    for extra in ["pre_feedforward_layernorm", "post_feedforward_layernorm"] {
        names.push((format!("model.layers.0.{extra}.weight"), vec![32]));
    }
    for extra in ["q_norm", "k_norm"] {
        names.push((format!("model.layers.0.self_attn.{extra}.weight"), vec![16]));
    }
    for prefix in ["language_model.model.", "model.language_model."] {
        let mut all: Vec<_> = names
            .iter()
            .map(|(n, s)| (n.replacen("model.", prefix, 1), s.clone()))
            .collect();
        let vision = if prefix.starts_with("model.") {
            "model.vision_tower"
        } else {
            "vision_tower"
        };
        all.push((format!("{vision}.encoder.weight"), vec![3, 3]));
        let bf16: Vec<_> = all
            .iter()
            .map(|(_, s)| vec![0; s.iter().product::<usize>() * 2])
            .collect();
        let rows: Vec<_> = all
            .iter()
            .zip(&bf16)
            .map(|((n, s), b)| (n.as_str(), Format::BF16, s.as_slice(), b.as_slice()))
            .collect();
        let folder = tempfile::tempdir().unwrap();
        write_folder(folder.path(), &config, &safetensors::write(&rows));
        let checkpoint = Checkpoint::open(folder.path()).unwrap();
        assert_eq!(checkpoint.warnings(), [""; 0]);
        assert_eq!(checkpoint.tensors().count(), names.len());
        assert!(checkpoint.tensor("blk.0.post_ffw_norm.weight").is_some());
        // sqrt(32) = 5.6568... is 5.65625 in bf16, the embedding's format.
        assert_eq!(checkpoint.config.embedding_scale, 5.65625);
    }
}

fn gemma_gguf() -> RawGguf {
    let mut file = RawGguf::valid();
    for (key, _, _) in &mut file.keys {
        *key = String::from_utf8_lossy(key)
            .replacen("llama.", "gemma3.", 1)
            .into_bytes();
    }
    file.text("general.architecture", "gemma3");
    file.u32("gemma3.attention.sliding_window", 16);
    let layer = tensors().split_off(2);
    file.tensors.truncate(2);
    for i in 0..6 {
        for (name, dims) in &layer {
            file.add(&name.replacen("blk.0", &format!("blk.{i}"), 1), dims);
        }
        for (name, n) in [
            ("attn_q_norm", 16),
            ("attn_k_norm", 16),
            ("post_attention_norm", 32),
            ("post_ffw_norm", 32),
        ] {
            file.add(&format!("blk.{i}.{name}.weight"), &[n]);
        }
    }
    file.u32("gemma3.block_count", 6);
    file
}

#[test]
fn gguf_gemma_slides_by_the_default_or_the_given_pattern() {
    let config = open_gguf(&gemma_gguf()).config;
    assert_eq!(config.sliding, [true, true, true, true, true, false]);
    assert_eq!((config.window, config.norm_offset), (Some(16), 0.0));
    assert_eq!(
        (config.embedding_scale, config.attention_scale),
        (32f32.sqrt(), 0.25)
    );
    assert_eq!(config.rope_local.unwrap().theta, 1e4);
    let mut file = gemma_gguf();
    file.u32("gemma3.attention.sliding_window_pattern", 2);
    file.f32("gemma3.rope.freq_base_swa", 5000.0);
    file.f32("gemma3.rope.scaling.factor", 8.0);
    let config = open_gguf(&file).config;
    assert_eq!(config.sliding, [true, false, true, false, true, false]);
    assert_eq!(config.rope.scaling, RopeScaling::Linear { factor: 8.0 });
    let local = config.rope_local.unwrap();
    assert_eq!((local.theta, local.scaling), (5000.0, RopeScaling::None));
}

#[test]
fn gguf_rope_factors_biases_and_ties_are_read() {
    let mut file = RawGguf::valid();
    file.add("rope_freqs.weight", &[8]);
    let factors: Vec<u8> = (1..=8u8).flat_map(|n| f32::from(n).to_le_bytes()).collect();
    file.tensor("rope_freqs.weight").bytes = factors;
    file.f32("llama.rope.scaling.factor", 2.0);
    file.add("blk.0.attn_q.bias", &[32]);
    file.add("output.weight", &[32, 8]);
    file.u32("tokenizer.ggml.padding_token_id", 4000);
    let checkpoint = open_gguf(&file);
    let doubled = (1..=8u8).map(|n| 2.0 * f32::from(n)).collect();
    assert_eq!(
        checkpoint.config.rope.scaling,
        RopeScaling::Factors(doubled)
    );
    assert!(checkpoint.config.rope.interleaved);
    assert!(checkpoint.tensor("blk.0.attn_q.bias").is_some());
    assert!(checkpoint.tensor("output.weight").is_some());
    assert!(checkpoint.require("blk.0.attn_k.bias").is_err());
    let TokenizerSource::Gguf(vocab) = &checkpoint.tokenizer else {
        panic!("no vocabulary")
    };
    assert_eq!(
        (vocab.bos, vocab.pad, vocab.tokens.len()),
        (Some(1), None, 8)
    );
    assert!(
        open_gguf(&RawGguf::valid())
            .tensor("output.weight")
            .is_none()
    );
}

#[test]
fn tensors_without_a_meaning_are_warned_of_and_rope_tables_are_not() {
    let mut file = RawGguf::valid();
    file.add("blk.0.attn_rot_embd.weight", &[8]);
    file.add("strange.weight", &[8]);
    assert_eq!(
        open_gguf(&file).warnings(),
        ["tensor strange.weight is not used"]
    );
    let mut all = hf_tensors();
    all.push((
        "model.layers.0.self_attn.rotary_emb.inv_freq".into(),
        vec![8],
    ));
    all.push(("model.layers.0.self_attn.q_proj.bias".into(), vec![32]));
    all.push(("lm_head.weight".into(), vec![8, 32]));
    let folder = tempfile::tempdir().unwrap();
    write_folder(folder.path(), &config(), &safetensors_file(&all));
    let checkpoint = Checkpoint::open(folder.path()).unwrap();
    let told = ["tensor model.layers.0.self_attn.q_proj.bias is not used"];
    assert_eq!(checkpoint.warnings(), told);
    assert!(checkpoint.tensor("output.weight").is_none(), "tied");
}

#[test]
fn templates_are_found_in_each_place() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    write_folder(at, &config(), &safetensors_file(&hf_tensors()));
    let template = || Checkpoint::open(at).unwrap().chat_template;
    assert_eq!(template(), None);
    std::fs::write(at.join("chat_template.json"), r#"{"chat_template": "J"}"#).unwrap();
    assert_eq!(template().as_deref(), Some("J"));
    let tokenizer_config = at.join("tokenizer_config.json");
    std::fs::write(
        &tokenizer_config,
        r#"{"chat_template": "T", "bos_token": "x"}"#,
    )
    .unwrap();
    assert_eq!(template().as_deref(), Some("T"));
    let list = json!({"chat_template": [{"name": "tool_use", "template": "U"},
        {"name": "default", "template": "D"}]});
    std::fs::write(&tokenizer_config, list.to_string()).unwrap();
    let checkpoint = Checkpoint::open(at).unwrap();
    assert_eq!(checkpoint.chat_template.as_deref(), Some("D"));
    assert_eq!(
        checkpoint.named_templates,
        [("tool_use".to_owned(), "U".to_owned())]
    );
    std::fs::write(at.join("chat_template.jinja"), "F").unwrap();
    assert_eq!(template().as_deref(), Some("F"));
    let mut file = RawGguf::valid();
    file.text("tokenizer.chat_template.rag", "R");
    file.set("tokenizer.chat_templates", 9, strings(&["rag"]));
    let checkpoint = open_gguf(&file);
    assert_eq!(
        checkpoint.named_templates,
        [("rag".to_owned(), "R".to_owned())]
    );
}

#[test]
fn generation_defaults_are_read() {
    let cases = [
        (json!({}), GenerationDefaults::default()),
        (
            json!({"do_sample": false, "temperature": 0.7, "eos_token_id": 2}),
            GenerationDefaults {
                temperature: Some(0.0),
                eos_ids: vec![2],
                ..Default::default()
            },
        ),
        (
            json!({"do_sample": true, "temperature": 0.6, "top_k": 20, "top_p": 0.95, "min_p": null,
                "repetition_penalty": 1.1, "eos_token_id": [1, 106]}),
            GenerationDefaults {
                temperature: Some(0.6),
                top_k: Some(20),
                top_p: Some(0.95),
                min_p: None,
                repetition_penalty: Some(1.1),
                eos_ids: vec![1, 106],
            },
        ),
        (
            json!({"top_k": -1}),
            GenerationDefaults {
                top_k: Some(0),
                ..Default::default()
            },
        ),
    ];
    for (json, expected) in cases {
        assert_eq!(
            generation::parse(json.to_string().as_bytes()).unwrap(),
            expected,
            "{json}"
        );
    }
    let mut file = RawGguf::valid();
    file.f32("general.sampling.temp", 0.5);
    file.set("general.sampling.top_k", 5, 64i32.to_le_bytes().into());
    let defaults = open_gguf(&file).generation;
    assert_eq!(
        (defaults.temperature, defaults.top_k),
        (Some(0.5), Some(64))
    );
}

#[test]
fn eos_ids_of_config_json_serve_where_no_generation_config_is() {
    let folder = tempfile::tempdir().unwrap();
    let mut with_eos = config();
    with_eos["eos_token_id"] = json!([3, 4]);
    write_folder(folder.path(), &with_eos, &safetensors_file(&hf_tensors()));
    assert_eq!(
        Checkpoint::open(folder.path()).unwrap().generation.eos_ids,
        [3, 4]
    );
}

#[test]
fn the_summary_counts_every_bit() {
    let summary = open_gguf(&RawGguf::valid()).summary();
    let parameters: u64 = tensors()
        .iter()
        .map(|(_, dims)| dims.iter().product::<u64>())
        .sum();
    assert_eq!(
        (summary.parameters, summary.weight_bytes),
        (parameters, parameters * 4)
    );
    assert_eq!(summary.bits_per_weight, 32.0);
    assert_eq!(summary.formats[&Format::F32].tensors, 11);
    assert!(summary.file_bytes > summary.weight_bytes);
}
