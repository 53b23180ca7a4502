import { createElement } from 'react';
import { renderToStaticMarkup } from 'react-dom/server';
import Markdown from 'react-markdown';
import { expect, test } from 'vitest';
import { withTables } from './tables';

const html = (text: string) => renderToStaticMarkup(createElement(Markdown, { remarkPlugins: [withTables] }, text)).replaceAll('\n', '').replace(/(<t[hd]>)\s+|\s+(<\/t[hd]>)/g, '$1$2');

test('a table has a head and rows, and what is marked up in its cells', () => {
  const made = html('| Class | What |\n|---|---|\n| `A` | the **server** |\n| `B` | |');
  expect(made).toBe('<table><thead><tr><th>Class</th><th>What</th></tr></thead><tbody><tr><td><code>A</code></td><td>the <strong>server</strong></td></tr><tr><td><code>B</code></td><td></td></tr></tbody></table>');
});

test('bars alone make no table, and scripts stay text', () => {
  expect(html('this | that\nor | more')).toContain('<p>');
  expect(html('| a | b |\n|---|\n| c | d |')).toContain('<p>');
  expect(html('| <script>1</script> |\n|---|\n| [x](javascript:1) |')).not.toMatch(/<script|javascript:/);
});
