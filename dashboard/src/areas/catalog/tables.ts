// Tables of Markdown (GitHub's), which the parser takes for paragraphs: rows of cells between bars.

interface Node {
  type: string;
  value?: string;
  children?: Node[];
  align?: (string | null)[];
}

const RULE = /^:?-+:?$/;

/** The lines of a paragraph, each as its cells; what is between two bars stays as it is marked up. */
function cellsOf(children: Node[]): Node[][][] {
  const lines: Node[][][] = [[[]]];
  const last = () => lines[lines.length - 1]!;
  for (const child of children) {
    if (child.type !== 'text') {
      if (child.type === 'break') lines.push([[]]);
      else last()[last().length - 1]!.push(child);
      continue;
    }
    (child.value ?? '').split('\n').forEach((line, number) => {
      if (number > 0) lines.push([[]]);
      line.split('|').forEach((text, place) => {
        if (place > 0) last().push([]);
        if (text.trim()) last()[last().length - 1]!.push({ type: 'text', value: text });
      });
    });
  }
  // The bars at the ends have nothing outside of them.
  return lines.map((cells) => {
    const from = cells.length > 1 && cells[0]!.length === 0 ? 1 : 0;
    const to = cells.length > 1 && cells[cells.length - 1]!.length === 0 ? cells.length - 1 : cells.length;
    return cells.slice(from, to);
  });
}

/** A paragraph as a table, or nothing when its second line is no rule of dashes as wide as its first. */
function tableOf(paragraph: Node): Node | undefined {
  const children = paragraph.children ?? [];
  if (!children.some((one) => one.type === 'text' && one.value?.includes('|'))) return undefined;
  const [head, rule, ...rows] = cellsOf(children);
  if (!head || !rule || rule.length !== head.length) return undefined;
  const marks = rule.map((cell) => (cell.length === 1 && cell[0]!.type === 'text' ? cell[0]!.value!.trim() : ''));
  if (!marks.every((mark) => RULE.test(mark))) return undefined;
  const align = marks.map((mark) => (mark.endsWith(':') ? (mark.startsWith(':') ? 'center' : 'right') : null));
  const row = (cells: Node[][]): Node => ({ type: 'tableRow', children: head.map((_, place) => ({ type: 'tableCell', children: cells[place] ?? [] })) });
  return { type: 'table', align, children: [head, ...rows.filter((cells) => cells.some((cell) => cell.length > 0))].map(row) };
}

/** Makes tables of the paragraphs that are ones; for `remarkPlugins`. */
export function withTables() {
  const change = (node: Node): Node => (node.type === 'paragraph' ? (tableOf(node) ?? node) : node.children ? { ...node, children: node.children.map(change) } : node);
  return (tree: unknown) => change(tree as Node) as never;
}
