// Speech, one text after the other.

var speaking = Promise.resolve();

function screenSpeak(params, call) {
  if (!isText(params.text) || !params.text.trim()) throw new Error("Give a text to say.");
  var mine = speaking.then(function () { return speak(params, call); });
  speaking = mine.catch(noop);
  return mine;
}

function speak(params, call) {
  return new Promise(function (done, fail) {
    if (call.over) { fail(new Error("Cancelled.")); return; }
    var words = new SpeechSynthesisUtterance(params.text);
    if (isText(params.lang) && params.lang) words.lang = params.lang;
    if (typeof params.rate === "number") words.rate = Math.min(4, Math.max(0.25, params.rate));
    var told = 0;
    words.onboundary = function (event) {
      if (Date.now() - told < 250) return;
      told = Date.now();
      call.progress(Math.min(1, event.charIndex / params.text.length));
    };
    words.onend = function () { done({ spoken: params.text }); };
    words.onerror = function (event) {
      fail(new Error(event.error === "not-allowed"
        ? "The browser allows sound only after somebody touches the page once."
        : "The browser could not say it (" + String(event.error) + ")."));
    };
    call.stop = function () { speechSynthesis.cancel(); fail(new Error("Cancelled.")); };
    speechSynthesis.speak(words);
  });
}
