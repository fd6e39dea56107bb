// A line of code that has to be broken goes on below its own beginning, not at the margin. Pygments closes its elements
// at the end of each line, so the text can be cut there.
const DEEPEST = 16; // arguments aligned far to the right move to the left where there is no room

document.addEventListener("DOMContentLoaded", () => {
  for (const block of document.querySelectorAll(".highlight-python pre, .highlight-cuda pre")) {
    block.innerHTML = block.innerHTML.replace(/\n$/, "").split("\n").map((line) => {
      let indent = line.replace(/<[^>]*>/g, "").match(/^ */)[0].length;
      if (indent > DEEPEST) {
        line = line.replace(/^((?:<[^>]*>)*) +/, (_, tags) => tags + " ".repeat(DEEPEST));
        indent = DEEPEST;
      }
      return `<span class="line" style="--indent: ${indent + 2}ch">${line}</span>`;
    }).join("");
  }
});
