// Cards of unequal height stand below each other without gaps. Each keeps the column that its number
// gives it, so that none jumps to another one while a card above it grows.
export function pack(board) {
  function place() {
    const narrow = [...board.querySelectorAll("section:not(.wide, #panels > :only-child)")]
      .filter((card) => card.offsetParent);
    for (const card of narrow) card.style.gridColumn = ""; // which may have made columns of its own
    const columns = getComputedStyle(board).gridTemplateColumns.split(" ").length;
    for (const [i, card] of narrow.entries()) card.style.gridColumn = i % columns + 1;
  }

  const sizes = new ResizeObserver((seen) => {
    for (const { target } of seen) if (target !== board) target.style.gridRowEnd = `span ${target.offsetHeight + 16}`;
    place();
  });
  const added = new MutationObserver((seen) => {
    for (const { addedNodes } of seen) for (const card of addedNodes) sizes.observe(card);
  });
  for (const card of board.querySelectorAll("section")) sizes.observe(card);
  for (const part of board.querySelectorAll(".parts")) added.observe(part, { childList: true });
  sizes.observe(board); // its width
  board.classList.add("packed");
}
