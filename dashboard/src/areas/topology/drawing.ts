// The topology as a picture of its own: SVG, and PNG drawn from it.
import type { Placed, Topology } from './graph';

const WIDTH = 220;
const HEIGHT = 56;
const MARGIN = 32;
const COLORS: Record<string, string> = { environment: '#0b7a75', component: '#155a9e', server: '#2b7a3f', network: '#7a5200', object: '#5a6670' };

const escaped = (text: string) => text.replace(/[&<>"']/g, (one) => `&#${one.codePointAt(0)};`);
const cut = (text: string, length: number) => ([...text].length > length ? `${[...text].slice(0, length - 1).join('')}…` : text);

/** An SVG document; every text of the model is escaped. */
export function drawn({ nodes, edges }: Topology, places: ReadonlyMap<string, Placed>): string {
  const all = [...places.values()];
  const width = Math.max(0, ...all.map((one) => one.x)) + WIDTH + 2 * MARGIN;
  const height = Math.max(0, ...all.map((one) => one.y)) + HEIGHT + 2 * MARGIN;
  const lines = edges.flatMap(({ from, to, kind }) => {
    const a = places.get(from);
    const b = places.get(to);
    if (!a || !b) return [];
    const [x1, y1, x2, y2] = [a.x + WIDTH + MARGIN, a.y + HEIGHT / 2 + MARGIN, b.x + MARGIN, b.y + HEIGHT / 2 + MARGIN];
    const middle = (x1 + x2) / 2;
    return [`<path d="M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}" fill="none" stroke="#9aa7b1" stroke-width="1.5"${kind === 'refers' ? ' stroke-dasharray="5 4"' : ''}/>`];
  });
  const boxes = nodes.flatMap((one) => {
    const at = places.get(one.id);
    if (!at) return [];
    const [x, y] = [at.x + MARGIN, at.y + MARGIN];
    const below = one.addresses.join(', ') || (one.type.split('.').pop() ?? '');
    return [
      `<g><rect x="${x}" y="${y}" width="${WIDTH}" height="${HEIGHT}" rx="8" fill="#fff" stroke="${COLORS[one.kind] ?? '#5a6670'}" stroke-width="1.5"/>` +
        `<text x="${x + 12}" y="${y + 24}" font-weight="600" font-size="13" fill="#1d2429">${escaped(cut(one.name, 28))}</text>` +
        `<text x="${x + 12}" y="${y + 42}" font-size="11" fill="#5a6670">${escaped(cut(below, 34))}</text></g>`,
    ];
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif"><rect width="100%" height="100%" fill="#fff"/>${lines.join('')}${boxes.join('')}</svg>`;
}

export async function pngOf(svg: string): Promise<Blob> {
  const url = URL.createObjectURL(new Blob([svg], { type: 'image/svg+xml' }));
  try {
    const image = new Image();
    image.src = url;
    await image.decode();
    const canvas = document.createElement('canvas');
    // Browsers draw at most some 16,000 pixels a side.
    const scale = Math.min(2, 12_000 / Math.max(image.width, image.height, 1));
    canvas.width = Math.ceil(image.width * scale);
    canvas.height = Math.ceil(image.height * scale);
    canvas.getContext('2d')?.drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((resolve, reject) => canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error('The picture could not be drawn'))), 'image/png'));
  } finally {
    URL.revokeObjectURL(url);
  }
}

export function save(content: Blob, name: string) {
  const url = URL.createObjectURL(content);
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
