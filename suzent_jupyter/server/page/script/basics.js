// Numbers, and the small words that everything else is written in. Whatever comes from the gateway is
// shown as text, never as markup.

var FIRST_ANSWER = 30000; // ms until the gateway's first frame
var SETTLED = 10000; // ms a connection must last to count as good
var LONGEST_WAIT = 30; // s between two attempts
var MOST_TEXT = 2097152; // characters
var MOST_IMAGE = 16777216; // characters of a data: URL
var MOST_QUESTIONS = 4;
var FITTED = 600; // characters up to which a text is made as large as the screen allows

function element(id) { return document.getElementById(id); }
function isText(value) { return typeof value === "string"; }
function noop() {}
function later(ms) { return new Promise(function (done) { setTimeout(done, ms); }); }
function show(id, visible) { element(id).hidden = !visible; }
