// A line of code that has to be broken goes on below its own beginning, not at the margin. Nothing is added to the text
// and nothing taken away, so a copy is the program: only the width of the spaces before a line is left to the style.
// Pygments closes its elements at the end of each line, so the text can be cut there.
document.addEventListener("DOMContentLoaded", () => {
  for (const block of document.querySelectorAll(".highlight-python pre, .highlight-cuda pre")) {
    block.innerHTML = block.innerHTML.replace(/\n$/, "").split("\n").map((line) => {
      const indent = line.replace(/<[^>]*>/g, "").match(/^ */)[0].length;
      line = line.replace(/^((?:<[^>]*>)*)( +)/, '$1<span class="indent">$2</span>');
      return `<span class="line" style="--indent: ${indent}">${line}\n</span>`;
    }).join("");
  }
});
