// The screen: a text, a picture or both, until the next one.

var pictureUrl = "";

function clearStage() {
  var picture = element("picture");
  show("shown", false);
  show("text", false);
  show("picture", false);
  element("text").textContent = "";
  picture.removeAttribute("src");
  if (pictureUrl) URL.revokeObjectURL(pictureUrl);
  pictureUrl = "";
  show("empty", true);
}

function fit() {
  var box = element("text"), span = box.firstChild;
  if (box.hidden || !span) return;
  var length = span.textContent.length;
  var isLong = length > FITTED || !element("picture").hidden;
  box.classList.toggle("long", length > FITTED);
  box.style.fontSize = "";
  if (isLong || !box.clientHeight) return;
  var low = 16, high = Math.max(17, box.clientHeight * 0.5);
  for (var step = 0; step < 12; step++) {
    var middle = (low + high) / 2;
    box.style.fontSize = middle + "px";
    if (box.scrollHeight > box.clientHeight || box.scrollWidth > box.clientWidth || breaksWords(span, middle)) high = middle;
    else low = middle;
  }
  box.style.fontSize = Math.floor(low) + "px";
}

// A word must not be broken for the sake of size: the longest one has to fit the width.
function breaksWords(span, size) {
  var longest = span.textContent.split(/\s+/).reduce(function (most, word) { return Math.max(most, word.length); }, 0);
  return longest <= 24 && longest * size * 0.62 > span.parentNode.clientWidth * 0.92;
}

// The bytes of a picture from a data: URL. Only raster formats, and only if the bytes are what the URL says.
function decodePicture(url) {
  var head = /^data:image\/(png|jpeg|gif|webp);base64,/.exec(url.slice(0, 32));
  if (!head) throw new Error("image must be a data: URL with base64 of a PNG, JPEG, GIF or WebP picture.");
  if (url.length > MOST_IMAGE) throw new Error("image takes more than 16 MiB.");
  var binary;
  try {
    binary = atob(url.slice(head[0].length));
  } catch (error) {
    throw new Error("image is not valid base64.");
  }
  var bytes = new Uint8Array(binary.length);
  for (var index = 0; index < binary.length; index++) bytes[index] = binary.charCodeAt(index);
  var start = binary.slice(0, 12);
  var is = { png: /^\x89PNG\r\n\x1a\n/, jpeg: /^\xff\xd8\xff/, gif: /^GIF8[79]a/, webp: /^RIFF[^]{4}WEBP/ }[head[1]];
  if (!is.test(start)) throw new Error("image does not hold a " + head[1].toUpperCase() + " picture.");
  return new Blob([bytes], { type: "image/" + head[1] });
}

function loadPicture(url) {
  return new Promise(function (done, fail) {
    var picture = new Image();
    picture.onload = function () { done(picture); };
    picture.onerror = function () { fail(new Error("image can't be decoded by this browser.")); };
    picture.src = url;
  });
}

async function screenShow(params) {
  var text = params.text, image = params.image, loaded = null, url = "";
  if (text !== undefined && text !== null && !isText(text)) throw new Error("text must be a text.");
  if (image !== undefined && image !== null && !isText(image)) throw new Error("image must be a data: URL.");
  if (!text && !image) throw new Error("Give text, image or both.");
  if (text && text.length > MOST_TEXT) throw new Error("text is longer than 2,097,152 characters.");
  if (image) {
    url = URL.createObjectURL(decodePicture(image));
    try {
      loaded = await loadPicture(url);
    } catch (error) {
      URL.revokeObjectURL(url);
      throw error;
    }
  }
  clearStage();
  if (loaded) {
    pictureUrl = url;
    element("picture").src = url;
    element("picture").alt = text ? "" : "Picture sent by the notebook";
    show("picture", true);
  }
  show("empty", false);
  show("shown", true);
  if (text) {
    var span = document.createElement("span");
    span.dir = "auto";
    span.textContent = text;
    element("text").appendChild(span);
    show("text", true);
    fit();
  }
  var answer = { shown: true };
  if (loaded) answer.image = { width: loaded.naturalWidth, height: loaded.naturalHeight };
  if (text) answer.characters = text.length;
  return answer;
}

function screenClear() {
  clearStage();
  return { cleared: true };
}
