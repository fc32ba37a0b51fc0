// What is offered: only what works in this browser, on this page.

function schema(properties, required) {
  return { type: "object", properties: properties, required: required || [], additionalProperties: false };
}

function offer(run, label, name, description, params, input) {
  return { run: run, label: label, declared: { name: name, description: description, params_schema: params, input_schema: input } };
}

function screenOffers() {
  return [
    offer(screenShow, "Show text and pictures", "screen.show", "Show a text, a picture or both on this screen.",
      { text: "str", image: "str" },
      schema({
        text: { type: "string", maxLength: MOST_TEXT, description: "What to show, as plain text." },
        image: { type: "string", maxLength: MOST_IMAGE, description: "A picture as data:image/png;base64,… (PNG, JPEG, GIF or WebP)." }
      })),
    offer(screenClear, "Clear the screen", "screen.clear", "Clear this screen.", {}, schema({})),
    offer(deviceInfo, "Describe this device", "device.info", "Tell screen size, platform and state of this device.", {}, schema({}))
  ];
}

function speechOffers() {
  if (!window.speechSynthesis || !window.SpeechSynthesisUtterance || !speechSynthesis.getVoices().length) return [];
  return [offer(screenSpeak, "Read texts out", "screen.speak", "Read a text out on this device; answers when it has been said.",
    { text: "str", lang: "str", rate: "float" },
    schema({
      text: { type: "string", minLength: 1, maxLength: 5000, description: "What to say." },
      lang: { type: "string", maxLength: 35, description: "Language as in BCP 47, such as en-GB." },
      rate: { type: "number", minimum: 0.25, maximum: 4, default: 1, description: "Speed; 1 is the voice's own." }
    }, ["text"]))];
}

function vibrateOffers() {
  if (!navigator.vibrate || !touches || !window.matchMedia || !matchMedia("(pointer: coarse)").matches) return [];
  return [offer(vibrate, "Vibrate", "notify.vibrate", "Vibrate this device.", { duration: "int", pattern: "list" },
    schema({
      duration: { type: "integer", minimum: 0, maximum: 10000, default: 300, description: "Milliseconds." },
      pattern: { type: "array", items: { type: "integer", minimum: 0, maximum: 10000 }, minItems: 1, maxItems: 64, description: "Milliseconds on, off, on, … instead." }
    }))];
}

async function cameraOffers() {
  var devices = window.isSecureContext && navigator.mediaDevices;
  if (!devices || !devices.getUserMedia || !devices.enumerateDevices) return [];
  var found = await Promise.race([devices.enumerateDevices(), later(2000)]).catch(noop);
  if (!found || !found.some(function (each) { return each.kind === "videoinput"; })) return [];
  return [offer(cameraSnap, "Take photos, if you allow it", "camera.snap", "Take a photo, after the person at the device allowed it.",
    { facing: "str", max_size: "int" },
    schema({
      facing: { type: "string", enum: ["environment", "user"], default: "environment", description: "The camera at the back, or the one facing the person." },
      max_size: { type: "integer", minimum: 16, maximum: 8192, default: 1920, description: "Pixels of the longer side at the most." }
    }))];
}

function locationOffers() {
  if (!window.isSecureContext || !navigator.geolocation) return [];
  return [offer(locationGet, "Tell its location, if you allow it", "location.get", "Tell where this device is, after the person there allowed it.",
    { high_accuracy: "bool" },
    schema({ high_accuracy: { type: "boolean", default: true, description: "Use GPS where there is one." } }))];
}

var offers = [];

async function findOffers() {
  var camera = await cameraOffers();
  offers = screenOffers().concat(speechOffers(), vibrateOffers(), camera, locationOffers());
  var list = element("offers");
  list.textContent = "";
  offers.forEach(function (each) {
    var item = document.createElement("li"), command = document.createElement("span"), code = document.createElement("code");
    item.appendChild(document.createTextNode(each.label));
    code.textContent = each.declared.name;
    command.appendChild(code);
    item.appendChild(command);
    list.appendChild(item);
  });
  show("insecure", !window.isSecureContext);
}

function declared() { return offers.map(function (each) { return each.declared; }); }

// Voices arrive late in most browsers.
function voicesKnown() {
  if (!window.speechSynthesis || speechSynthesis.getVoices().length) return Promise.resolve();
  return new Promise(function (done) {
    if (speechSynthesis.addEventListener) speechSynthesis.addEventListener("voiceschanged", done, { once: true });
    setTimeout(done, 1000);
  });
}

async function voicesChanged() {
  var had = offers.length;
  await findOffers();
  if (offers.length !== had && connection && connection.features.indexOf("update") >= 0) {
    connection.send({ type: "update", capabilities: declared() });
  }
}
