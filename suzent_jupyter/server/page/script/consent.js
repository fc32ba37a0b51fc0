// Consent: one question at a time, at each first use, answered by the person here.

var allowed = {};
var questions = [];
var asked = null;
var before = null;

function consent(what, title, more, call) {
  if (allowed[what]) return Promise.resolve();
  if (questions.length >= MOST_QUESTIONS) throw new Error("Other questions wait for an answer on this device.");
  return new Promise(function (done, fail) {
    var question = { what: what, title: title, more: more, done: done, fail: fail };
    call.stop = function () { settle(question, fail, new Error("Nobody answered the question on this device.")); };
    questions.push(question);
    askNext();
  });
}

function askNext() {
  if (asked) return;
  asked = questions[0] || null;
  show("consent", Boolean(asked));
  document.querySelector("main").inert = Boolean(asked);
  if (!asked) {
    if (before && before.focus) before.focus();
    before = null;
    return;
  }
  before = before || document.activeElement;
  element("question").textContent = asked.title;
  element("question-more").textContent = asked.more;
  // A finger that was on its way to something else must not say yes.
  [element("allow-once"), element("allow-session")].forEach(function (button) {
    button.disabled = true;
    setTimeout(function () { button.disabled = false; }, 500);
  });
  element("deny").focus();
}

function settle(question, act, value) {
  var place = questions.indexOf(question);
  if (place < 0) return;
  questions.splice(place, 1);
  act(value);
  if (asked === question) asked = null;
  askNext();
}

function answerQuestion(yes, always) {
  if (!asked) return;
  var question = asked;
  if (yes && always) {
    allowed[question.what] = true;
    questions.filter(function (other) { return other.what === question.what && other !== question; })
      .forEach(function (other) { settle(other, other.done); });
  }
  if (yes) settle(question, question.done);
  else settle(question, question.fail, new Error("The person at this device did not allow it."));
}

function trapKeys(event) {
  if (!asked) return;
  if (event.key === "Escape" || event.key === "Esc") {
    event.preventDefault();
    answerQuestion(false);
  } else if (event.key === "Tab") {
    var buttons = [element("allow-once"), element("allow-session"), element("deny")]
      .filter(function (button) { return !button.disabled; });
    var place = buttons.indexOf(document.activeElement) + (event.shiftKey ? -1 : 1);
    event.preventDefault();
    buttons[(place + buttons.length) % buttons.length].focus();
  }
}
