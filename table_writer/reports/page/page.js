'use strict';
// Sorts and filters the tables of this page. Without it they are as they are.
for (const table of document.querySelectorAll('table')) {
  const body = table.tBodies[0];
  const headings = [...table.tHead.rows[0].cells];
  const number = cell => cell.dataset.n === undefined ? NaN : Number(cell.dataset.n);
  const compare = (one, other) => {
    const [a, b] = [number(one), number(other)];
    if (!isNaN(a) || !isNaN(b)) return isNaN(a) ? -1 : isNaN(b) ? 1 : a - b;
    return one.textContent.localeCompare(other.textContent, 'en', {numeric: true});
  };
  headings.forEach((heading, column) => {
    const button = document.createElement('button');
    button.type = 'button';
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener('click', () => {
      const down = heading.getAttribute('aria-sort') !== 'descending';
      for (const one of headings) one.removeAttribute('aria-sort');
      heading.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      const rows = [...body.rows].sort((a, b) => compare(a.cells[column], b.cells[column]));
      body.append(...(down ? rows.reverse() : rows));
    });
  });
  if (body.rows.length < 8) continue;
  const label = document.createElement('label');
  const field = document.createElement('input');
  const count = document.createElement('output');
  label.className = 'tw-filter';
  field.type = 'search';
  field.placeholder = 'a word, a date';
  label.append('Only rows with ', field, count);
  table.parentElement.before(label);
  field.addEventListener('input', () => {
    const wanted = field.value.toLowerCase();
    let shown = 0;
    for (const row of body.rows) {
      row.hidden = !row.textContent.toLowerCase().includes(wanted);
      shown += !row.hidden;
    }
    count.textContent = wanted ? `${shown} of ${body.rows.length}` : '';
  });
}
