// The page: which view is shown, light or dark, the key, the server's name of its model.

import * as api from "./api.js";
import { chat } from "./chat.js";
import { byId } from "./dom.js";
import { live } from "./live.js";
import { showDefaults } from "./parameters.js";

const view = live();

/** Shows the view that the address names. */
function route() {
  const isLive = location.hash === "#live";
  byId("chat").hidden = isLive;
  byId("live").hidden = !isLive;
  for (const [id, isHere] of [["to-chat", !isLive], ["to-live", isLive]]) {
    if (isHere) byId(id).setAttribute("aria-current", "page");
    else byId(id).removeAttribute("aria-current");
  }
  document.title = isLive ? "Live view · ucuz" : "ucuz";
  view.show(isLive);
  scrollTo(0, 0);
}

function switchTheme() {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  localStorage.setItem("ucuz.theme", root.dataset.theme);
  view.redraw();
}

/** A side panel that a button shows where there is no room for it always. */
function drawer(buttonId, panelId) {
  const button = byId(buttonId);
  const set = (isOpen) => {
    byId(panelId).classList.toggle("open", isOpen);
    button.setAttribute("aria-expanded", String(isOpen));
  };
  button.addEventListener("click", () => set(button.getAttribute("aria-expanded") !== "true"));
  return () => set(false);
}

/** Asks for a key; resolves to whether one was given. */
function askForKey(wasRefused) {
  const dialog = byId("key-dialog");
  byId("key-says").textContent = wasRefused
    ? "The server does not know the key that it was given. Enter another one."
    : "Its operator gives one out. It is kept until this tab is closed.";
  byId("key").value = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      const key = dialog.returnValue === "use" ? byId("key").value.trim() : "";
      dialog.returnValue = "";
      if (key !== "") api.setKey(key);
      resolve(key !== "");
    }, { once: true });
  });
}

async function nameModel() {
  try {
    const response = await api.request("/v1/models");
    const [model] = (await response.json()).data;
    byId("model").textContent = model.id;
    byId("welcome-model").textContent = model.id;
    showDefaults(model.default_sampling, model.context_length);
  } catch (error) {
    byId("model").textContent = error.status === 401 ? "needs a key" : "no answer";
  }
}

api.gate.ask = askForKey;
chat();
const closeList = drawer("show-list", "list");
drawer("show-parameters", "parameters");
byId("conversations").addEventListener("click", (event) => {
  if (event.target.closest(".title")) closeList();
});
byId("new").addEventListener("click", closeList);
byId("theme").addEventListener("click", switchTheme);
addEventListener("hashchange", route);
route();
nameModel();
