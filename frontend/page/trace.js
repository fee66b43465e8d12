// Single steps of each worker as a strip of bars, and its KV blocks as a map: event "trace" of /v1/status/stream.
import { element, find } from "./elements.js";

const KEPT_STEPS = 1000;
const STRIP_HEIGHT = 120;
const STEP_WIDTH = 2;
const PARTS = ["--one", "--two", "--three"]; // decode rows, prompt rows, image patches; as in the chart of averages

let workers = new Map(); // number of a worker: { count, steps, figure, canvas, words, map }

function partsOf(worker) {
    const canvas = element("canvas", { height: String(STRIP_HEIGHT), role: "img", "aria-label": `Rows of the newest steps of worker ${worker}` });
    const words = element("p", {});
    const map = element("div", { class: "kv-map", role: "img", "aria-label": `KV blocks of worker ${worker}` });
    const figure = element("figure", {}, element("figcaption", {}, `Worker ${worker}`), canvas, words);
    find("step-strips").append(figure);
    find("kv-maps").append(map);
    return { count: 0, steps: [], figure, canvas, words, map };
}

// A report has the newest steps only: those that were missed are a gap of one place.
function addSteps(known, report) {
    if (report.step_count < known.count)
        known.steps = []; // another process
    const fresh = Math.min(report.step_count - known.count, report.steps.length);
    if (known.steps.length > 0 && report.step_count - known.count > fresh)
        known.steps.push(null);
    known.steps = known.steps.concat(fresh > 0 ? report.steps.slice(-fresh) : []).slice(-KEPT_STEPS);
    known.count = report.step_count;
}

function drawStrip({ canvas, steps }) {
    const width = canvas.parentElement.clientWidth;
    const style = getComputedStyle(document.documentElement);
    canvas.width = width; // clears it too
    const shown = steps.slice(-Math.floor(width / STEP_WIDTH));
    const most = Math.max(1, ...shown.map((step) => (step ? step[0] + step[1] + step[2] : 0)));
    const pen = canvas.getContext("2d");
    PARTS.forEach((name, part) => {
        pen.fillStyle = style.getPropertyValue(name).trim();
        shown.forEach((step, at) => {
            if (!step)
                return;
            const below = step.slice(0, part).reduce((sum, rows) => sum + rows, 0);
            const scale = STRIP_HEIGHT / most;
            pen.fillRect(at * STEP_WIDTH, STRIP_HEIGHT - (below + step[part]) * scale, STEP_WIDTH, step[part] * scale);
        });
    });
    return most;
}

function describe(known, most) {
    const step = known.steps.at(-1);
    known.words.textContent = !step ? "No step yet" :
        `Newest step: ${step[0]} decode rows, ${step[1]} prompt rows, ${step[2]} image patches, ${(step[3] / 1000).toPrecision(3)} ms. ` +
        `Highest bar: ${most} rows`;
}

function drawMap(map, digits) {
    const count = digits.length / 2;
    if (map.childElementCount !== count)
        map.replaceChildren(...Array.from({ length: count }, () => element("i")));
    [...map.children].forEach((cell, at) => {
        const [cached, used] = [parseInt(digits[2 * at], 16), parseInt(digits[2 * at + 1], 16)];
        const name = used > 0 ? "used" : cached > 0 ? "cached" : "free";
        const whole = Math.max(used, cached) === 15 || name === "free" ? name : `${name} part`;
        if (cell.className !== whole)
            cell.className = whole;
    });
}

export function showTrace(trace) {
    for (const report of trace.workers) {
        if (!workers.has(report.worker))
            workers.set(report.worker, partsOf(report.worker));
        const known = workers.get(report.worker);
        addSteps(known, report);
        describe(known, drawStrip(known));
        drawMap(known.map, report.kv_map);
    }
}

// Another server, or another model is shown.
export function forgetTrace() {
    for (const known of workers.values()) {
        known.figure.remove();
        known.map.remove();
    }
    workers = new Map();
}
