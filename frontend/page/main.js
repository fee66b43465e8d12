// Starts the page: which view is shown, the API key, the list of models, and the state of the server.
import { find } from "./elements.js";
import { ServerError, apiKey, getJson, setApiKey } from "./server.js";
import { showModels, showSettings } from "./settings.js";
import { startChat } from "./chat.js";
import { startDashboard, stopDashboard } from "./dashboard.js";

const STATE_MS = 5000;

function showView() {
    const dashboard = location.hash === "#dashboard";
    find("dashboard").hidden = !dashboard;
    find("chat").hidden = dashboard;
    find("to-dashboard").setAttribute("aria-current", dashboard ? "page" : "false");
    find("to-chat").setAttribute("aria-current", dashboard ? "false" : "page");
    if (dashboard)
        startDashboard();
    else
        stopDashboard();
}

async function loadModels() {
    try {
        const list = await getJson("v1/models");
        showModels(list.data.map((model) => model.id));
    } catch (failure) {
        if (failure instanceof ServerError && failure.status === 401 && !find("key-dialog").open)
            find("key-dialog").showModal();
    }
}

async function showState() {
    let text = "not reachable";
    try {
        const state = await getJson("health");
        text = state.status === "loading" ? `loading, ${Math.round(100 * state.load_progress)} %` : state.status;
    } catch {
        // the text says it
    }
    if (text === "ready" && find("setting-model").options.length === 0)
        loadModels();
    find("server-state").textContent = text;
    setTimeout(showState, STATE_MS);
}

function startKeys() {
    find("key-button").addEventListener("click", () => {
        find("key").value = apiKey();
        find("key-dialog").showModal();
    });
    find("key-dialog").addEventListener("close", () => {
        if (find("key-dialog").returnValue !== "save")
            return;
        setApiKey(find("key").value.trim());
        loadModels();
        showView();
    });
}

showSettings();
startKeys();
loadModels();
await startChat();
addEventListener("hashchange", showView);
showView();
showState();
