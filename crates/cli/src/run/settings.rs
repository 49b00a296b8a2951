//! How answers are sampled and when they end: flags of `ucuz run`, and what `/set` changes in a chat.
//!
//! [`SETTINGS`] is the whole list; flags and `/set` share names, parsers and rules.

use ucuz_llm::{GenerateRequest, Input, LIMITS, SamplingOptions};

/// What answers are made with. What is absent is the model's own, else off.
#[derive(Debug, Clone, Default, PartialEq, clap::Args)]
pub struct Settings {
    /// Most tokens of an answer [default: what the context leaves]
    #[arg(short = 'n', long, value_parser = max_tokens, allow_negative_numbers = true)]
    pub max_tokens: Option<u32>,
    /// 0 always takes the likeliest token, 2 is the most [default: the model's own, else 1]
    #[arg(short, long, value_parser = temperature, allow_negative_numbers = true)]
    temperature: Option<f32>,
    /// Keep the K likeliest tokens; 0 keeps all
    #[arg(long, value_name = "K", value_parser = top_k, allow_negative_numbers = true)]
    top_k: Option<u32>,
    /// Keep the smallest set of tokens with this much probability, above 0 and at most 1
    #[arg(long, value_parser = top_p, allow_negative_numbers = true)]
    top_p: Option<f32>,
    /// Keep tokens with this share of the likeliest one's probability, between 0 and 1
    #[arg(long, value_parser = min_p, allow_negative_numbers = true)]
    min_p: Option<f32>,
    /// Divide the logits of tokens that occurred, above 0 and at most 100; 1 is off
    #[arg(long, value_name = "PENALTY", value_parser = repetition_penalty, allow_negative_numbers = true)]
    repetition_penalty: Option<f32>,
    /// Lower the logits of tokens that the answer holds, between -2 and 2
    #[arg(long, value_name = "PENALTY", value_parser = addend, allow_negative_numbers = true)]
    presence_penalty: Option<f32>,
    /// The same for each time that it holds them, between -2 and 2
    #[arg(long, value_name = "PENALTY", value_parser = addend, allow_negative_numbers = true)]
    frequency_penalty: Option<f32>,
    /// Seed of the sampling noise [default: drawn from the clock]
    #[arg(long, value_parser = seed, allow_negative_numbers = true)]
    seed: Option<u64>,
    /// Text that ends an answer and is no part of it; may be given several times
    #[arg(long, value_name = "TEXT", value_parser = stop_text)]
    stop: Vec<String>,
}

/// A setting by its name.
pub struct Setting {
    /// What `/set` calls it; its flag is the same with hyphens.
    pub name: &'static str,
    /// What its value must be, after "it must be".
    pub rule: &'static str,
    get: fn(&Settings) -> Option<String>,
    set: fn(&mut Settings, Option<&str>) -> Result<(), String>,
}

const UNIT: &str = "a number between 0 and 1";
const ADDEND: &str = "a number between -2 and 2";

/// Every setting.
pub const SETTINGS: &[Setting] = &[
    Setting {
        name: "temperature",
        rule: "a number between 0 and 2",
        get: |s| shown(s.temperature),
        set: |s, text| put(&mut s.temperature, text, temperature),
    },
    Setting {
        name: "top_p",
        rule: "a number above 0 and at most 1",
        get: |s| shown(s.top_p),
        set: |s, text| put(&mut s.top_p, text, top_p),
    },
    Setting {
        name: "top_k",
        rule: "a whole number, 0 for all tokens",
        get: |s| shown(s.top_k),
        set: |s, text| put(&mut s.top_k, text, top_k),
    },
    Setting {
        name: "min_p",
        rule: UNIT,
        get: |s| shown(s.min_p),
        set: |s, text| put(&mut s.min_p, text, min_p),
    },
    Setting {
        name: "max_tokens",
        rule: "a whole number of at least 1",
        get: |s| shown(s.max_tokens),
        set: |s, text| put(&mut s.max_tokens, text, max_tokens),
    },
    Setting {
        name: "seed",
        rule: "a whole number of at least 0",
        get: |s| shown(s.seed),
        set: |s, text| put(&mut s.seed, text, seed),
    },
    Setting {
        name: "repetition_penalty",
        rule: "a number above 0 and at most 100, 1 is off",
        get: |s| shown(s.repetition_penalty),
        set: |s, text| put(&mut s.repetition_penalty, text, repetition_penalty),
    },
    Setting {
        name: "presence_penalty",
        rule: ADDEND,
        get: |s| shown(s.presence_penalty),
        set: |s, text| put(&mut s.presence_penalty, text, addend),
    },
    Setting {
        name: "frequency_penalty",
        rule: ADDEND,
        get: |s| shown(s.frequency_penalty),
        set: |s, text| put(&mut s.frequency_penalty, text, addend),
    },
    Setting {
        name: "stop",
        rule: "a text, or several as a JSON list",
        get: |s| (!s.stop.is_empty()).then(|| serde_json::json!(s.stop).to_string()),
        set: set_stop,
    },
];

impl Settings {
    /// Gives a setting a value, or with `default` takes it back.
    ///
    /// # Errors
    /// A sentence: there is no such setting, or the value breaks its rule.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let value = (value != "default").then_some(value);
        let setting = find(name)?;
        (setting.set)(self, value).map_err(|why| {
            let given = value.unwrap_or_default();
            format!("{} cannot be {given}: {why}", setting.name)
        })
    }

    /// A setting and its value in words.
    ///
    /// # Errors
    /// A sentence: there is no such setting.
    pub fn describe(&self, name: &str) -> Result<String, String> {
        find(name).map(|setting| self.line(setting))
    }

    /// All settings, one a line.
    pub fn table(&self) -> String {
        let lines: Vec<_> = SETTINGS.iter().map(|setting| self.line(setting)).collect();
        lines.join("\n")
    }

    fn line(&self, setting: &Setting) -> String {
        let value = (setting.get)(self);
        let value = value.as_deref().unwrap_or("default");
        format!("  {:<19} {value:<9} {}", setting.name, setting.rule)
    }

    /// The request for an answer to `input`.
    pub fn request(&self, input: Input) -> GenerateRequest {
        GenerateRequest {
            sampling: SamplingOptions {
                temperature: self.temperature,
                top_k: self.top_k,
                top_p: self.top_p,
                min_p: self.min_p,
                repetition_penalty: self.repetition_penalty,
                presence_penalty: self.presence_penalty,
                frequency_penalty: self.frequency_penalty,
                logit_bias: Vec::new(),
                seed: self.seed,
            },
            max_tokens: self.max_tokens,
            stop: self.stop.clone(),
            ..GenerateRequest::new(input)
        }
    }
}

/// The setting of that name; hyphens are as good as underscores.
fn find(name: &str) -> Result<&'static Setting, String> {
    let name = name.replace('-', "_");
    let found = SETTINGS.iter().find(|setting| setting.name == name);
    found.ok_or_else(|| {
        let names = SETTINGS.iter().map(|setting| setting.name);
        match super::command::closest(&name, names) {
            Some(close) => format!("there is no setting {name}; did you mean {close}?"),
            None => format!("there is no setting {name}; /set shows all"),
        }
    })
}

fn shown<T: ToString>(value: Option<T>) -> Option<String> {
    value.map(|value| value.to_string())
}

type Parser<T> = fn(&str) -> Result<T, String>;

fn put<T>(field: &mut Option<T>, text: Option<&str>, parse: Parser<T>) -> Result<(), String> {
    *field = text.map(parse).transpose()?;
    Ok(())
}

/// One text, or a JSON string or list of strings when it looks like one.
fn set_stop(settings: &mut Settings, text: Option<&str>) -> Result<(), String> {
    let stop = match text {
        None => Vec::new(),
        Some(text) if text.starts_with('[') => list(text)?,
        Some(text) if text.starts_with('"') => list(&format!("[{text}]"))?,
        Some(text) => vec![text.to_owned()],
    };
    if stop.len() > LIMITS.stop_strings {
        return Err(format!("it must be at most {} texts", LIMITS.stop_strings));
    }
    let stop: Result<_, _> = stop.iter().map(|text| stop_text(text)).collect();
    settings.stop = stop?;
    Ok(())
}

fn list(json: &str) -> Result<Vec<String>, String> {
    serde_json::from_str(json).map_err(|error| format!("it must be a JSON list of texts ({error})"))
}

fn stop_text(text: &str) -> Result<String, String> {
    match (1..=LIMITS.stop_bytes).contains(&text.len()) {
        true => Ok(text.to_owned()),
        false => Err(format!("a text must have 1 to {} bytes", LIMITS.stop_bytes)),
    }
}

fn temperature(text: &str) -> Result<f32, String> {
    number(
        text,
        |value| (0.0..=2.0).contains(&value),
        "between 0 and 2",
    )
}

fn top_p(text: &str) -> Result<f32, String> {
    number(text, |p| p > 0.0 && p <= 1.0, "above 0 and at most 1")
}

fn min_p(text: &str) -> Result<f32, String> {
    number(text, |p| (0.0..=1.0).contains(&p), "between 0 and 1")
}

fn repetition_penalty(text: &str) -> Result<f32, String> {
    number(text, |p| p > 0.0 && p <= 100.0, "above 0 and at most 100")
}

fn addend(text: &str) -> Result<f32, String> {
    number(text, |value| value.abs() <= 2.0, "between -2 and 2")
}

fn number(text: &str, holds: fn(f32) -> bool, rule: &str) -> Result<f32, String> {
    let value = text.parse::<f32>().ok().filter(|value| holds(*value));
    value.ok_or_else(|| format!("it must be a number {rule}"))
}

fn max_tokens(text: &str) -> Result<u32, String> {
    let value = text.parse().ok().filter(|value| *value > 0);
    value.ok_or_else(|| format!("it must be a whole number between 1 and {}", u32::MAX))
}

fn top_k(text: &str) -> Result<u32, String> {
    let value = text.parse().ok();
    value.ok_or_else(|| format!("it must be a whole number between 0 and {}", u32::MAX))
}

fn seed(text: &str) -> Result<u64, String> {
    let value = text.parse().ok();
    value.ok_or_else(|| format!("it must be a whole number between 0 and {}", u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_takes_its_range_and_nothing_else() {
        for (name, good, bad) in [
            ("temperature", ["0", "2"], ["2.1", "-0.1"]),
            ("top_p", ["0.1", "1"], ["0", "1.1"]),
            ("top_k", ["0", "40"], ["-1", "1.5"]),
            ("min_p", ["0", "1"], ["-0.1", "nan"]),
            ("max_tokens", ["1", "4096"], ["0", "-1"]),
            ("seed", ["0", "18446744073709551615"], ["-1", "x"]),
            ("repetition_penalty", ["0.5", "100"], ["0", "101"]),
            ("presence_penalty", ["-2", "2"], ["-2.1", "inf"]),
            ("frequency_penalty", ["-2", "2"], ["2.1", ""]),
            ("stop", ["END", r#"["a", "b"]"#], ["[1]", r#"[""]"#]),
        ] {
            let setting = find(name).expect(name);
            let mut settings = Settings::default();
            for value in good {
                settings.set(name, value).expect(value);
                assert!((setting.get)(&settings).is_some(), "{name} {value}");
            }
            let before = settings.clone();
            for value in bad {
                let error = settings.set(name, value).expect_err(value);
                assert!(error.contains(name) && error.contains("must"), "{error}");
            }
            assert_eq!(settings, before, "a refused value changes nothing");
            settings.set(name, "default").expect("any has a default");
            assert_eq!(settings, Settings::default());
        }
    }

    #[test]
    fn names_are_forgiving_and_unknown_ones_get_a_suggestion() {
        let mut settings = Settings::default();
        settings.set("top-p", "0.5").expect("a hyphen");
        assert!(
            settings.table().contains("top_p               0.5"),
            "{}",
            settings.table()
        );
        let error = settings.set("temprature", "1").expect_err("a typo");
        assert!(error.contains("did you mean temperature?"), "{error}");
        let error = settings.describe("colour").expect_err("nothing alike");
        assert!(error.contains("/set shows all"), "{error}");
    }

    #[test]
    fn settings_reach_the_request() {
        let mut settings = Settings::default();
        for (name, value) in [
            ("temperature", "0"),
            ("max_tokens", "7"),
            ("seed", "3"),
            ("stop", "\"\\n\""),
        ] {
            settings.set(name, value).expect(name);
        }
        let request = settings.request(Input::Text("x".to_owned()));
        assert_eq!(request.sampling.temperature, Some(0.0));
        assert_eq!(request.sampling.seed, Some(3));
        assert_eq!(request.max_tokens, Some(7));
        assert_eq!(request.stop, ["\n"]);
    }
}
