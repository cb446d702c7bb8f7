/* Narrow a list of claims by paper, level and word. Without this script the whole list shows. */
document.addEventListener("DOMContentLoaded", () => {
  const claims = [...document.querySelectorAll(".eb-claim")];
  const place = document.querySelector(".eb-filter");
  if (!place || !claims.length) return;

  const paper = (claim) => claim.closest("section").querySelector("h2, h3");
  const title = (heading) => heading.firstChild.textContent.trim();
  const level = (claim) => claim.querySelector(".eb-level").textContent.trim();
  const papers = [...new Set(claims.map((c) => title(paper(c))))];
  const levels = ["gap", "mechanism", "diagnostic", "reproduction"];

  const pick = (name, values) => {
    const label = document.createElement("label");
    const select = document.createElement("select");
    label.append(`${name} `, select);
    for (const value of ["all", ...values]) select.add(new Option(value, value));
    place.append(label);
    return select;
  };
  const byPaper = pick("Paper", papers);
  const byLevel = pick("Level", levels);
  const label = document.createElement("label");
  const word = Object.assign(document.createElement("input"), { type: "search" });
  label.append("Word ", word);
  const told = document.createElement("output");
  place.append(label, told);

  const show = () => {
    const wanted = word.value.trim().toLowerCase();
    const held = claims.filter((claim) => {
      const fits =
        (byPaper.value === "all" || title(paper(claim)) === byPaper.value) &&
        (byLevel.value === "all" || level(claim) === byLevel.value) &&
        claim.textContent.toLowerCase().includes(wanted);
      claim.hidden = !fits;
      return fits;
    });
    const open = new Set(held.map((claim) => claim.closest("section")));
    const idle = held.length === claims.length;
    for (const section of new Set(claims.map((claim) => claim.closest("section"))))
      section.hidden = !idle && !open.has(section);
    told.textContent = `${held.length} of ${claims.length} claims`;
  };
  for (const control of [byPaper, byLevel, word]) control.addEventListener("input", show);
  show();
});
