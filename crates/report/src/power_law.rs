//! How a cost grows: `y = coefficient · x^exponent`, fitted by least squares on logarithms.

use serde::Serialize;

/// A fitted power law.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PowerLaw {
    /// Slope of `ln y` over `ln x`.
    pub exponent: f64,
    /// Standard error of the exponent from the residuals; absent with two points, which leave none.
    pub standard_error: Option<f64>,
    /// `y` at `x = 1`.
    pub coefficient: f64,
    /// Points fitted.
    pub points: usize,
}

impl PowerLaw {
    /// Fits `(x, y)` pairs; `None` unless two different `x` are there and all numbers are positive and finite.
    ///
    /// Source: ordinary least squares; the slope's variance is `Σ residual² / (n - 2) / Σ (x - mean)²`.
    pub fn fit(points: &[(f64, f64)]) -> Option<Self> {
        let usable = |v: f64| v.is_finite() && v > 0.0;
        if !points.iter().all(|(x, y)| usable(*x) && usable(*y)) {
            return None;
        }
        let logs: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
        let n = logs.len() as f64;
        let mean = |value: fn(&(f64, f64)) -> f64| logs.iter().map(value).sum::<f64>() / n;
        let (mean_x, mean_y) = (mean(|p| p.0), mean(|p| p.1));
        let sxx: f64 = logs.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
        let sxy: f64 = logs.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
        if logs.len() < 2 || sxx <= 0.0 {
            return None;
        }
        let exponent = sxy / sxx;
        let intercept = mean_y - exponent * mean_x;
        let squares: f64 = logs
            .iter()
            .map(|(x, y)| (y - intercept - exponent * x).powi(2))
            .sum();
        Some(Self {
            exponent,
            standard_error: (logs.len() > 2).then(|| (squares / (n - 2.0) / sxx).sqrt()),
            coefficient: intercept.exp(),
            points: logs.len(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exact_power_is_found_without_error() {
        let points: Vec<(f64, f64)> = [1.0, 2.0, 4.0, 8.0]
            .map(|x: f64| (x, 3.0 * x.powi(2)))
            .to_vec();
        let law = PowerLaw::fit(&points).unwrap();
        // A dozen roundings of numbers near 1.
        assert!((law.exponent - 2.0).abs() < 1e-14, "{law:?}");
        assert!((law.coefficient - 3.0).abs() < 1e-13, "{law:?}");
        assert!(law.standard_error.unwrap() < 1e-14, "{law:?}");
    }

    #[test]
    fn the_standard_error_is_that_of_the_closed_form() {
        // ln x = 0, 1, 2 and ln y = 0, 1, 0: slope 0, residuals -1/3, 2/3, -1/3, so the error is sqrt(2/3 / 1 / 2).
        let e = std::f64::consts::E;
        let law = PowerLaw::fit(&[(1.0, 1.0), (e, e), (e * e, 1.0)]).unwrap();
        assert!(law.exponent.abs() < 1e-14, "{law:?}");
        assert!(
            (law.standard_error.unwrap() - (1.0f64 / 3.0).sqrt()).abs() < 1e-14,
            "{law:?}"
        );
    }

    #[test]
    fn two_points_have_no_error_and_fewer_have_no_law() {
        let law = PowerLaw::fit(&[(1.0, 1.0), (2.0, 8.0)]).unwrap();
        assert!((law.exponent - 3.0).abs() < 1e-14 && law.standard_error.is_none());
        for points in [
            &[][..],
            &[(1.0, 1.0)],
            &[(2.0, 1.0), (2.0, 3.0)],
            &[(1.0, 0.0), (2.0, 1.0)],
            &[(1.0, f64::NAN), (2.0, 1.0)],
        ] {
            assert_eq!(PowerLaw::fit(points), None, "{points:?}");
        }
    }
}
