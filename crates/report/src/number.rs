//! Numbers as people read them: no more digits than the measurement supports.

/// Most significant digits shown.
const DIGITS_MAX: i32 = 4;
/// Fewest: a median whose spread is as large as itself still shows its size.
const DIGITS_MIN: i32 = 2;
/// Shown when nothing is known of the uncertainty.
const DIGITS_UNKNOWN: i32 = 3;

/// `value` rounded to the leading digit of `uncertainty`, within 2 to 4 significant digits; 3 without an uncertainty.
pub fn rounded(value: f64, uncertainty: f64) -> String {
    with_decimals(value, decimals(value, uncertainty))
}

/// Both ends of a range, rounded alike.
pub fn range(low: f64, high: f64, uncertainty: f64) -> String {
    let decimals = decimals(low.abs().max(high.abs()), uncertainty);
    format!(
        "{}-{}",
        with_decimals(low, decimals),
        with_decimals(high, decimals)
    )
}

/// `value` with at most `digits` significant digits and no trailing zeros after the point: labels of an axis.
pub fn short(value: f64, digits: i32) -> String {
    let text = with_decimals(value, digits - 1 - exponent(value));
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// Power of ten of the leading digit; 0 for zero.
fn exponent(value: f64) -> i32 {
    match value.abs() {
        magnitude if magnitude > 0.0 && magnitude.is_finite() => magnitude.log10().floor() as i32,
        _ => 0,
    }
}

/// Decimals to show; negative ones round before the point.
fn decimals(value: f64, uncertainty: f64) -> i32 {
    let leading = exponent(value);
    let digits = match uncertainty.abs() {
        width if width > 0.0 => leading - exponent(width) + 1,
        _ => DIGITS_UNKNOWN,
    };
    digits.clamp(DIGITS_MIN, DIGITS_MAX) - 1 - leading
}

fn with_decimals(value: f64, decimals: i32) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    if decimals >= 0 {
        return format!("{value:.*}", decimals as usize);
    }
    let unit = 10f64.powi(-decimals);
    format!("{:.0}", (value / unit).round() * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_end_where_the_spread_begins() {
        for (value, uncertainty, text) in [
            (12.3456, 0.3, "12.3"),
            (12.3456, 0.02, "12.35"),
            (12.3456, 1e-9, "12.35"),
            (12.3456, 40.0, "12"),
            (0.012345, 0.0, "0.0123"),
            (1234.56, 0.0, "1230"),
            (1234.56, 3.0, "1235"),
            (15321.0, 700.0, "15300"),
            (0.0, 0.0, "0.00"),
            (0.0, 2.0, "0.0"),
            (f64::NAN, 1.0, "-"),
        ] {
            assert_eq!(rounded(value, uncertainty), text, "{value} {uncertainty}");
        }
    }

    #[test]
    fn ends_of_a_range_have_the_same_decimals() {
        assert_eq!(range(9.871, 10.213, 0.1), "9.9-10.2");
        assert_eq!(range(2.0, 2.0, 0.0), "2.00-2.00");
    }

    #[test]
    fn labels_have_no_trailing_zeros() {
        for (value, text) in [(0.5, "0.5"), (8192.0, "8192"), (20.0, "20"), (0.0, "0")] {
            assert_eq!(short(value, 4), text);
        }
    }
}
