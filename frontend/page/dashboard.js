// The dashboard: what /v1/status/stream reports, as tiles, charts and tables. Its figures are totals; the charts show differences
// between reports. Nothing is kept on the server, so the charts begin when the dashboard is opened.
import { element, find } from "./elements.js";
import { streamGet } from "./server.js";
import { uPlot } from "./libraries.js";
import { forgetTrace, showTrace } from "./trace.js";

const KEPT_SAMPLES = 600; // five minutes
const RECENT_SAMPLES = 120; // one minute, for the histograms
const AGAIN_MS = 1000;

let controller = null;
let samples = [];
let charts = null;

// A function, which the chart calls at each drawing: light and dark may change.
function colour(name) {
    return () => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function lineChart(id, labels) {
    const colours = [colour("--one"), colour("--two"), colour("--three")];
    const axis = { stroke: colour("--text"), grid: { stroke: colour("--line") }, ticks: { stroke: colour("--line") } };
    return new uPlot({
        width: 480, height: 200,
        legend: { live: false },
        cursor: { show: false },
        series: [{}, ...labels.map((label, at) => ({ label, stroke: colours[at], width: 2 }))],
        axes: [axis, { ...axis, size: 60 }],
        scales: { y: { range: (chart, low, high) => [0, Math.max(1, high * 1.1)] } },
    }, [[], ...labels.map(() => [])], find(id));
}

function barChart(id) {
    const axis = { stroke: colour("--text"), grid: { show: false }, ticks: { stroke: colour("--line") } };
    return new uPlot({
        width: 480, height: 200,
        legend: { show: false },
        cursor: { show: false },
        series: [{}, { fill: colour("--one"), stroke: colour("--one"), paths: uPlot.paths.bars({ size: [0.8] }), points: { show: false } }],
        axes: [{ ...axis, values: (chart, at) => at.map((one) => chart.bucketLabels?.[one] ?? "") }, { ...axis, size: 60 }],
        scales: { x: { time: false }, y: { range: (chart, low, high) => [0, Math.max(1, high * 1.1)] } },
    }, [[], []], find(id));
}

function makeCharts() {
    return {
        tokens: lineChart("chart-tokens", ["generated"]),
        rows: lineChart("chart-rows", ["decode rows", "prompt rows", "image patches"]),
        first: barChart("chart-first"),
        between: barChart("chart-between"),
    };
}

function fitCharts() {
    for (const chart of Object.values(charts ?? {}))
        chart.setSize({ width: Math.max(200, chart.root.parentElement.clientWidth), height: 200 });
}

function rates() {
    const time = [], tokens = [], decode = [], prompt = [], patches = [];
    for (let at = 1; at < samples.length; at++) {
        const [before, now] = [samples[at - 1], samples[at]];
        const seconds = (now.time_ms - before.time_ms) / 1000;
        const steps = Math.max(1, now.steps - before.steps);
        time.push(now.shown_s);
        tokens.push((now.generated_tokens - before.generated_tokens) / seconds);
        decode.push((now.decode_rows - before.decode_rows) / steps);
        prompt.push((now.prompt_rows - before.prompt_rows) / steps);
        patches.push((now.patch_rows - before.patch_rows) / steps);
    }
    return { time, tokens, decode, prompt, patches };
}

function seconds(value) {
    return value < 1 ? `${+(value * 1000).toPrecision(3)} ms` : `${value} s`;
}

function showHistogram(chart, name) {
    const now = samples.at(-1)[name];
    const before = samples[Math.max(0, samples.length - 1 - RECENT_SAMPLES)][name];
    const counts = now.counts.map((count, at) => count - before.counts[at]);
    chart.bucketLabels = [...now.bounds.map((bound) => seconds(bound)), `> ${seconds(now.bounds.at(-1))}`];
    chart.setData([counts.map((count, at) => at), counts]);
}

function tile(label, value) {
    return element("div", { class: "tile" }, element("span", { class: "value" }, value), element("span", {}, label));
}

function percent(part, whole) {
    return whole > 0 ? `${Math.round((100 * part) / whole)} %` : "-";
}

function bytes(count) {
    return count >= 1e9 ? `${(count / 1e9).toFixed(1)} GB` : `${Math.round(count / 1e6)} MB`;
}

function showFigures(figures) {
    if (samples.length > 0 && samples.at(-1).time_ms > figures.time_ms) { // another server
        samples = [];
        forgetTrace();
    }
    samples.push({ ...figures, shown_s: Date.now() / 1000 });
    samples = samples.slice(-KEPT_SAMPLES);
    const rate = rates();
    find("figures").replaceChildren(
        tile("tokens/s", Math.round(rate.tokens.at(-1) ?? 0).toLocaleString("en")),
        tile("running", figures.running),
        tile("waiting", figures.waiting),
        tile("preparing", figures.preparing),
        tile("prompt tokens from the prefix cache", percent(figures.prefix_hit_tokens, figures.prefix_query_tokens)),
        tile("preemptions", figures.preemptions),
        tile("weights", bytes(figures.weights_bytes)));
    charts.tokens.setData([rate.time, rate.tokens]);
    charts.rows.setData([rate.time, rate.decode, rate.prompt, rate.patches]);
    showHistogram(charts.first, "first_token_s");
    showHistogram(charts.between, "between_tokens_s");
    showBlocks(figures);
}

function showBlocks(figures) {
    find("kv-text").textContent = `${figures.kv_blocks_used} blocks in use, ${figures.kv_blocks_cached} cached, ` +
        `${figures.kv_blocks_total} in all, ${figures.kv_block_tokens} positions each`;
}

function row(...cells) {
    return element("tr", {}, ...cells.map((cell) => element("td", {}, String(cell ?? ""))));
}

// Weights and caches of all devices of a worker, of their memory.
function memoryOf(worker) {
    const sum = (name) => worker.devices.reduce((total, device) => total + device[name], 0);
    return sum("memory_bytes") > 0 ? `${bytes(sum("weights_bytes") + sum("kv_cache_bytes"))} of ${bytes(sum("memory_bytes"))}` : "";
}

function showModels(models) {
    find("model-states").replaceChildren(...models.map((model) => row(model.id, model.reloading ? `${model.state}, reloading` : model.state,
        model.waiting, model.failure)));
}

function showStatus(status) {
    find("workers").replaceChildren(...status.workers.map((worker) => {
        const death = worker.last_death ? `${worker.last_death.reason}, ${Math.round(worker.last_death.seconds_ago)} s ago` : "none";
        const made = row(worker.index, worker.device, memoryOf(worker), worker.state, worker.pid ?? "none", worker.requests, worker.says.steps, worker.restarts, death);
        made.className = worker.state === "ready" ? "" : "attention";
        return made;
    }));
    const requests = [...status.requests.running, ...status.requests.waiting].slice(0, 100);
    find("requests").replaceChildren(...requests.map((request) => row(request.request_id ?? request.id, request.phase, request.worker,
        request.prompt_tokens, request.computed_tokens, request.generated_tokens, request.replays, `${request.age_s.toFixed(1)} s`)));
    find("server-state").textContent = status.status;
}

const SHOW = { models: showModels, status: showStatus, figures: showFigures, trace: showTrace };

export async function startDashboard() {
    if (controller)
        return;
    const mine = (controller = new AbortController());
    charts ??= makeCharts();
    fitCharts();
    addEventListener("resize", fitCharts);
    while (controller === mine) {
        try {
            await streamGet("v1/status/stream", mine.signal, (event, data) => SHOW[event]?.(data));
        } catch (failure) {
            if (controller === mine)
                find("server-state").textContent = failure.message;
        }
        if (controller === mine)
            await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
    }
}

export function stopDashboard() {
    controller?.abort();
    controller = null;
    removeEventListener("resize", fitCharts);
}
