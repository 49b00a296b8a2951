//! `GET /metrics`: the engine's numbers in Prometheus' text format, read without any lock.
//!
//! Names of our own, and those of vLLM for routers and dashboards that know them.
//! Source: Prometheus text exposition format 0.0.4.

use std::fmt::Write;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use ucuz_llm::{Histogram, Llm, Stats};

use crate::app::App;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

pub(crate) async fn metrics(State(app): State<Arc<App>>) -> Response {
    let mut response = render(&app).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, TEXT);
    response
}

/// Writes families of one prefix, each sample with the model's name.
struct Page {
    text: String,
    model: String,
}

fn render(app: &App) -> String {
    let mut page = Page {
        text: String::with_capacity(16 << 10),
        model: escape(&app.options.model_id),
    };
    let stats = app.llm.stats();
    state(&mut page, app, &stats);
    cache(&mut page, &stats);
    work(&mut page, &app.llm, &stats);
    tenants(&mut page, app, &stats);
    latencies(&mut page, &app.llm);
    kv_events(&mut page, app);
    if app.options.vllm_metrics {
        vllm(&mut page, app, &stats);
    }
    page.text
}

fn state(page: &mut Page, app: &App, stats: &Stats) {
    let health = app.llm.health();
    let is_well = health.is_alive() && !health.is_stalled();
    page.gauge(
        "ucuz_healthy",
        "1 while /health answers 200",
        f64::from(u8::from(is_well)),
    );
    page.gauge(
        "ucuz_requests_running",
        "Requests that hold a slot",
        stats.running as f64,
    );
    page.gauge(
        "ucuz_requests_waiting",
        "Requests that wait for a slot",
        stats.waiting as f64,
    );
    page.gauge(
        "ucuz_requests_slots",
        "Requests of the usual size that can run at once",
        stats.load.slots as f64,
    );
    page.gauge(
        "ucuz_queued_tokens",
        "Known tokens of waiting requests",
        stats.queued_tokens as f64,
    );
    page.gauge(
        "ucuz_backlog_seconds",
        "Time until all that is inside should be done",
        stats.load.backlog_s(),
    );
    page.gauge(
        "ucuz_step_rows",
        "Tokens of the step in flight",
        stats.rows_in_flight as f64,
    );
    page.gauge(
        "ucuz_step_budget_rows",
        "Tokens that the last step could hold",
        stats.load.budget as f64,
    );
}

fn cache(page: &mut Page, stats: &Stats) {
    page.gauge(
        "ucuz_kv_bytes_capacity",
        "Bytes of the KV pool",
        stats.kv_bytes_total as f64,
    );
    page.gauge(
        "ucuz_kv_bytes_used",
        "Bytes of KV blocks that requests hold",
        stats.kv_bytes_used as f64,
    );
    page.head("ucuz_kv_blocks", "KV blocks by what they are", "gauge");
    for (group, blocks) in stats.groups.iter().enumerate() {
        let free = blocks.free - blocks.cached;
        for (state, count) in [
            ("used", blocks.used),
            ("cached", blocks.cached),
            ("free", free),
        ] {
            let labels = format!("group=\"{group}\",state=\"{state}\"");
            page.sample("ucuz_kv_blocks", &labels, count as f64);
        }
    }
    let totals = &stats.totals;
    page.counter(
        "ucuz_prefix_cache_queries_tokens_total",
        "Prompt tokens looked for",
        totals.prefix_queries,
    );
    page.counter(
        "ucuz_prefix_cache_hits_tokens_total",
        "Prompt tokens found",
        totals.prefix_hits,
    );
}

fn work(page: &mut Page, llm: &Llm, stats: &Stats) {
    let totals = &stats.totals;
    page.counter("ucuz_requests_total", "Requests taken in", totals.requests);
    let reasons = [
        ("stop", totals.stopped + totals.stop_string),
        ("length", totals.length),
        ("cancelled", totals.cancelled),
        ("disconnected", totals.disconnected),
        ("unfollowable", totals.unfollowable),
        ("failed", totals.failed),
    ];
    page.counters(
        "ucuz_requests_ended_total",
        "Requests by how they ended",
        "reason",
        &reasons,
    );
    let refusals = llm.refusals();
    let reasons = [
        ("requests", refusals.full),
        ("tokens", refusals.tokens),
        ("deadline", refusals.late),
    ];
    page.counters(
        "ucuz_requests_refused_total",
        "Requests answered with 429, by what was full",
        "reason",
        &reasons,
    );
    page.counter(
        "ucuz_prompt_tokens_total",
        "Prompt tokens of requests taken in",
        totals.prompt_tokens,
    );
    page.counter(
        "ucuz_generated_tokens_total",
        "Tokens generated",
        totals.generated_tokens,
    );
    page.counter(
        "ucuz_computed_tokens_total",
        "Tokens computed, again included",
        totals.computed_rows,
    );
    page.counter(
        "ucuz_preemptions_total",
        "Requests that gave up their blocks",
        totals.preemptions,
    );
    page.counter("ucuz_steps_total", "Steps that ended well", totals.steps);
    page.counter(
        "ucuz_step_errors_total",
        "Steps that failed",
        totals.step_errors,
    );
}

fn tenants(page: &mut Page, app: &App, stats: &Stats) {
    let Some(keys) = &app.options.keys else {
        return;
    };
    page.head("ucuz_tenant_requests", "Requests inside by client", "gauge");
    for tenant in &stats.tenants {
        let name = escape(keys.name(tenant.tenant).unwrap_or_default());
        for (state, count) in [("running", tenant.running), ("waiting", tenant.waiting)] {
            let labels = format!("tenant=\"{name}\",state=\"{state}\"");
            page.sample("ucuz_tenant_requests", &labels, count as f64);
        }
    }
}

fn latencies(page: &mut Page, llm: &Llm) {
    let latencies = llm.latencies();
    for (name, help, histogram) in [
        (
            "ucuz_queue_seconds",
            "From arrival to a slot",
            &latencies.queue,
        ),
        (
            "ucuz_first_token_seconds",
            "From arrival to the first token",
            &latencies.first_token,
        ),
        (
            "ucuz_between_tokens_seconds",
            "From a token to the next",
            &latencies.between_tokens,
        ),
        (
            "ucuz_request_seconds",
            "From arrival to the end",
            &latencies.whole,
        ),
        ("ucuz_step_seconds", "Steps", &latencies.step),
    ] {
        page.histogram(name, help, histogram);
    }
}

fn kv_events(page: &mut Page, app: &App) {
    let Some(counters) = &app.options.kv_events else {
        return;
    };
    page.counter(
        "ucuz_kv_events_batches_total",
        "Batches of KV events published",
        counters.batches_total(),
    );
    page.counter(
        "ucuz_kv_events_dropped_total",
        "Batches that an announcement replaced or a slow subscriber missed",
        counters.dropped_total(),
    );
    page.gauge(
        "ucuz_kv_events_subscribers",
        "Subscribers of KV events",
        counters.subscribers() as f64,
    );
}

/// The names that vLLM gives these facts, as far as routers read them.
fn vllm(page: &mut Page, app: &App, stats: &Stats) {
    let used = stats.kv_bytes_used as f64 / stats.kv_bytes_total.max(1) as f64;
    page.gauge(
        "vllm:num_requests_running",
        "Requests that run",
        stats.running as f64,
    );
    page.gauge(
        "vllm:num_requests_waiting",
        "Requests that wait",
        stats.waiting as f64,
    );
    page.gauge(
        "vllm:kv_cache_usage_perc",
        "Share of KV blocks in use, 0 to 1",
        used,
    );
    let blocks = stats.groups.iter().map(|group| group.total).min();
    page.head("vllm:cache_config_info", "Shape of the KV cache", "gauge");
    let labels = format!(
        "block_size=\"32\",num_gpu_blocks=\"{}\"",
        blocks.unwrap_or(0)
    );
    page.sample("vllm:cache_config_info", &labels, 1.0);
    let totals = &stats.totals;
    page.counter(
        "vllm:prefix_cache_queries_total",
        "Prompt tokens looked for",
        totals.prefix_queries,
    );
    page.counter(
        "vllm:prefix_cache_hits_total",
        "Prompt tokens found",
        totals.prefix_hits,
    );
    page.counter(
        "vllm:prompt_tokens_total",
        "Prompt tokens",
        totals.prompt_tokens,
    );
    page.counter(
        "vllm:generation_tokens_total",
        "Generated tokens",
        totals.generated_tokens,
    );
    page.counter(
        "vllm:num_preemptions_total",
        "Preemptions",
        totals.preemptions,
    );
    let reasons = [
        ("stop", totals.stopped + totals.stop_string),
        ("length", totals.length),
        ("abort", totals.cancelled + totals.disconnected),
    ];
    page.counters(
        "vllm:request_success_total",
        "Requests that ended well",
        "finished_reason",
        &reasons,
    );
    vllm_latencies(page, &app.llm);
}

fn vllm_latencies(page: &mut Page, llm: &Llm) {
    let latencies = llm.latencies();
    for (name, help, histogram) in [
        (
            "vllm:time_to_first_token_seconds",
            "Time to first token",
            &latencies.first_token,
        ),
        (
            "vllm:time_per_output_token_seconds",
            "Time per output token",
            &latencies.between_tokens,
        ),
        (
            "vllm:inter_token_latency_seconds",
            "Inter-token latency",
            &latencies.between_tokens,
        ),
        (
            "vllm:e2e_request_latency_seconds",
            "End to end",
            &latencies.whole,
        ),
        (
            "vllm:request_queue_time_seconds",
            "Time in the queue",
            &latencies.queue,
        ),
    ] {
        page.histogram(name, help, histogram);
    }
}

impl Page {
    fn head(&mut self, name: &str, help: &str, kind: &str) {
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &str, value: f64) {
        let separator = if labels.is_empty() { "" } else { "," };
        let model = &self.model;
        let _ = writeln!(
            self.text,
            "{name}{{model_name=\"{model}\"{separator}{labels}}} {value}"
        );
    }

    fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.head(name, help, "gauge");
        self.sample(name, "", value);
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.head(name, help, "counter");
        self.sample(name, "", value as f64);
    }

    /// A counter for each value of one label.
    fn counters(&mut self, name: &str, help: &str, label: &str, values: &[(&str, u64)]) {
        self.head(name, help, "counter");
        for (value, count) in values {
            self.sample(name, &format!("{label}=\"{value}\""), *count as f64);
        }
    }

    fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.head(name, help, "histogram");
        let value = histogram.value();
        let bucket = format!("{name}_bucket");
        for (bound, count) in value.buckets {
            self.sample(&bucket, &format!("le=\"{bound}\""), count as f64);
        }
        self.sample(&bucket, "le=\"+Inf\"", value.count as f64);
        self.sample(&format!("{name}_sum"), "", value.sum_s);
        self.sample(&format!("{name}_count"), "", value.count as f64);
    }
}

/// A label's value.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_break_out_of_its_label() {
        assert_eq!(escape("a\"} 1\n\\"), "a\\\"} 1\\n\\\\");
    }
}
