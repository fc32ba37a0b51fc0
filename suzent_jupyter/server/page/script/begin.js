// Where it begins.

async function begin() {
  recall();
  takeTicket();
  if (!kept.identity) keep({ identity: newIdentity() });
  element("name").value = kept.name || kind()[1];
  nameShown();
  element("join-form").addEventListener("submit", function (event) {
    event.preventDefault();
    var name = element("name").value.trim().slice(0, 64);
    if (!name) { element("name").focus(); return; }
    keep({ name: name, joined: true });
    join();
  });
  element("give-up").addEventListener("click", leave);
  element("leave").addEventListener("click", leave);
  element("wall").addEventListener("click", function () { setWall(true); });
  element("unwall").addEventListener("click", function () { setWall(false); });
  element("allow-once").addEventListener("click", function () { answerQuestion(true, false); });
  element("allow-session").addEventListener("click", function () { answerQuestion(true, true); });
  element("deny").addEventListener("click", function () { answerQuestion(false); });
  document.addEventListener("keydown", trapKeys, true);
  ["pointermove", "pointerdown", "keydown"].forEach(function (name) {
    document.addEventListener(name, function () { if (document.body.classList.contains("wall")) stir(true); });
  });
  document.addEventListener("fullscreenchange", fullScreenChanged);
  document.addEventListener("webkitfullscreenchange", fullScreenChanged);
  document.addEventListener("visibilitychange", function () { if (wantsAwake) stayAwake(true); });
  window.addEventListener("resize", fit);
  window.addEventListener("hashchange", takeTicket);
  window.addEventListener("online", function () { if (goal && !connection) { clearTimeout(retryTimer); retryTimer = setTimeout(connect, 500); } });
  element("join-button").disabled = true;
  await voicesKnown();
  await findOffers();
  if (window.speechSynthesis && speechSynthesis.addEventListener) speechSynthesis.addEventListener("voiceschanged", voicesChanged);
  element("join-button").disabled = false;
  if (kept.name && kept.joined) join();
}

begin();
