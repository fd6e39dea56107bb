// Below each result of the search: the words around the first match. The text of all pages comes as a script (texts.js),
// because a browser that has opened the book from the disk may not fetch other pages.
document.addEventListener("DOMContentLoaded", () => {
  const AROUND = 110; // letters on each side of the match
  const words = (new URLSearchParams(location.search).get("q") || "").toLowerCase().split(/\s+/).filter((word) => word);
  const escaped = words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  const anyWord = new RegExp(escaped.join("|"), "i"), eachWord = new RegExp(`(${escaped.join("|")})`, "gi");

  // the page's sections as [anchor, text]; a result that names an anchor is about that section
  const sectionsOf = (link) => {
    const [page, anchor] = link.getAttribute("href").split("#");
    const all = PAGE_TEXTS[page.replace(/\.html.*$/, "")] || [];
    const named = all.filter(([name]) => anchor && name === anchor);
    return named.length ? named : all;
  };

  const excerpt = (sections) => {
    const text = (sections.find(([, text]) => anyWord.test(text)) || sections[0] || ["", ""])[1];
    const at = Math.max(0, text.search(anyWord));
    const start = at > AROUND ? text.lastIndexOf(" ", at - AROUND) + 1 : 0; // no word is cut
    const end = at + AROUND < text.length ? text.indexOf(" ", at + AROUND) : text.length;
    if (end < 0) return text.slice(start);
    return (start ? "… " : "") + text.slice(start, end) + (end < text.length ? " …" : "");
  };

  const explain = (item) => {
    const shown = document.createElement("p");
    shown.className = "excerpt";
    for (const part of excerpt(sectionsOf(item.querySelector("a"))).split(eachWord))
      shown.append(words.includes(part.toLowerCase()) ? Object.assign(document.createElement("mark"), { textContent: part }) : part);
    item.append(shown);
  };

  const results = document.getElementById("search-results");
  if (!words.length || !results) return;
  new MutationObserver(() => {
    for (const item of results.querySelectorAll("ul.search > li:not(.explained)")) {
      item.classList.add("explained");
      explain(item);
    }
  }).observe(results, { childList: true, subtree: true });
});
