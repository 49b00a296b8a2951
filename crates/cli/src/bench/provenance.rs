//! Where and when a result was made.

use std::time::SystemTime;

use ucuz_cpu::detect;
use ucuz_measure::{DeviceFacts, Machine, Provenance};
use ucuz_tensor::Backend;

const DAY_S: u64 = 86_400;

/// This process, now, on this backend.
pub fn of(backend: &dyn Backend) -> Provenance {
    let info = backend.describe();
    here(Some(DeviceFacts {
        backend: info.name.to_owned(),
        device: info.device,
        threads: info.threads,
    }))
}

/// This process, now; it computes nothing itself.
pub fn of_client() -> Provenance {
    here(None)
}

fn here(device: Option<DeviceFacts>) -> Provenance {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let created_unix_s = since_1970.map_or(0, |duration| duration.as_secs());
    Provenance {
        command: command(std::env::args()),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        created_unix_s,
        created: date(created_unix_s),
        arithmetic_version: ucuz_tensor::ARITHMETIC_VERSION,
        machine: Machine {
            processor: detect::cpu_model(),
            physical_cores: detect::physical_cores(),
            memory_bytes: detect::total_memory_bytes(),
            device,
        },
    }
}

/// Arguments as one would type them; the program without its folder. Values of `--header` may be keys: they are left out.
fn command(mut args: impl Iterator<Item = String>) -> String {
    let program = args.next().unwrap_or_default();
    let name = program.rsplit('/').next().unwrap_or_default().to_owned();
    let mut is_header = false;
    let args = args.map(|arg| {
        let was_header = std::mem::replace(&mut is_header, arg == "--header");
        match was_header || arg.starts_with("--header=") {
            true => without_value(&arg),
            false => arg,
        }
    });
    let quoted =
        args.map(
            |arg| match arg.contains(|c: char| c.is_whitespace() || "'\"$\\".contains(c)) {
                true => format!("'{}'", arg.replace('\'', r"'\''")),
                false => arg,
            },
        );
    std::iter::once(name)
        .chain(quoted)
        .collect::<Vec<_>>()
        .join(" ")
}

/// `name: ...` of a header.
fn without_value(header: &str) -> String {
    let name = header.split(':').next().unwrap_or_default();
    format!("{name}: ...")
}

/// `2026-01-31 23:59 UTC`.
///
/// Source: days since 1970 to a date of the Gregorian calendar by eras of 400 years that begin in March, as in H. Hinnant,
/// "chrono-compatible low-level date algorithms".
fn date(unix_s: u64) -> String {
    let (days, seconds) = (unix_s / DAY_S, unix_s % DAY_S);
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute) = (seconds / 3600, seconds % 3600 / 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_leap_years_and_of_the_epoch() {
        for (unix_s, expected) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_399, "2000-02-28 23:59 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (951_868_800, "2000-03-01 00:00 UTC"),
            (1_735_689_599, "2024-12-31 23:59 UTC"),
        ] {
            assert_eq!(date(unix_s), expected);
        }
    }

    #[test]
    fn a_command_is_quoted_where_it_must_be() {
        let args = ["/usr/bin/ucuz", "bench", "my model.gguf", "it's"];
        let command = command(args.into_iter().map(str::to_owned));
        assert_eq!(command, r"ucuz bench 'my model.gguf' 'it'\''s'");
    }

    #[test]
    fn headers_are_named_and_not_told() {
        let args = [
            "ucuz",
            "--header",
            "x-key: s: t",
            "--header=x: s",
            "--seed",
            "1",
        ];
        let command = command(args.into_iter().map(str::to_owned));
        let expected = "ucuz --header 'x-key: ...' '--header=x: ...' --seed 1";
        assert_eq!(command, expected);
    }
}
