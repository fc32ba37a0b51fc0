// What the person sees: the three views of the page, the status line, the full screen that stays awake.

function view(name) {
  document.body.setAttribute("data-view", name);
  ["join", "pending", "joined"].forEach(function (each) { show(each, each === name); });
  if (name !== "joined") setWall(false);
  if (name === "joined") fit();
}

function status(text, mood) {
  element("status").textContent = text;
  element("dot").className = "dot " + (mood || "");
}

function notice(text) {
  element("notice").textContent = text;
  show("notice", Boolean(text));
}

function nameShown() {
  element("bar-name").textContent = kept.name || "Device";
  element("empty-name").textContent = kept.name;
}

function activity(text) { element("activity").textContent = text; }

function clock(date) { return date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" }); }

function stopWith(text) {
  goal = false;
  stayAwake(false);
  clearStage();
  view("join");
  status("Not joined", text ? "bad" : "");
  notice(text);
  element("join-button").disabled = false;
  element("join-button").textContent = kept.token ? "Join again" : "Join";
}

var awake = null;
var wantsAwake = false;
var stirTimer = 0;

function stayAwake(wanted) {
  wantsAwake = wanted;
  if (!wanted && awake) {
    awake.release().catch(noop);
    awake = null;
  }
  if (!wanted || awake || !navigator.wakeLock || document.visibilityState !== "visible") return;
  navigator.wakeLock.request("screen").then(function (lock) {
    if (!wantsAwake || awake) { lock.release().catch(noop); return; }
    awake = lock;
    lock.addEventListener("release", function () { if (awake === lock) awake = null; });
  }, noop);
}

function fullScreenElement() { return document.fullscreenElement || document.webkitFullscreenElement || null; }

function setWall(on) {
  if (document.body.classList.contains("wall") === on) return;
  document.body.classList.toggle("wall", on);
  var root = document.documentElement, act = on
    ? root.requestFullscreen || root.webkitRequestFullscreen
    : fullScreenElement() && (document.exitFullscreen || document.webkitExitFullscreen);
  if (act) {
    var done = act.call(on ? root : document);
    if (done && done.catch) done.catch(noop); // without it the page still fills the window
  }
  if (on) element("unwall").focus({ preventScroll: true });
  else element("wall").focus({ preventScroll: true });
  stir(false);
  fit();
}

function stir(moved) {
  document.body.classList.toggle("stirred", moved);
  clearTimeout(stirTimer);
  if (moved) stirTimer = setTimeout(function () { stir(false); }, 3000);
}

function fullScreenChanged() {
  if (!fullScreenElement()) setWall(false);
  fit();
}
