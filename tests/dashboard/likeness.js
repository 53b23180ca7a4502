// How two pictures of one page differ, as somebody would say who looks at them side by side.
//
// Both are cut into cells of 4 x 4 pixels. A cell is alike when its colour, averaged with its neighbours', is
// between those of the same place and of the places beside it in the other picture, or nearly: so neither how
// letters are smoothed, nor what a compression leaves, nor an edge that is some pixels off is a difference.
// What is there in one picture and not in the other is outside of them, for one of both.
// Cells that differ are gathered into regions; how many of them make a broken page is for the caller.
async ([one, other, { cell, near, gap }]) => {
  const read = async (picture) => {
    const bytes = Uint8Array.from(atob(picture), (letter) => letter.charCodeAt(0));
    const bitmap = await createImageBitmap(new Blob([bytes]));
    const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
    const context = canvas.getContext('2d');
    context.drawImage(bitmap, 0, 0);
    return { width: bitmap.width, height: bitmap.height, data: context.getImageData(0, 0, bitmap.width, bitmap.height).data };
  };
  const [a, b] = await Promise.all([read(one), read(other)]);
  if (a.width !== b.width || a.height !== b.height) return { sizes: [[a.width, a.height], [b.width, b.height]], regions: [], share: 1 };
  const columns = Math.ceil(a.width / cell);
  const rows = Math.ceil(a.height / cell);
  const averaged = ({ width, height, data }) => {
    const sums = new Float32Array(columns * rows * 4);
    for (let y = 0; y < height; y += 1) {
      for (let x = 0; x < width; x += 1) {
        const from = 4 * (y * width + x);
        const to = 4 * (Math.floor(y / cell) * columns + Math.floor(x / cell));
        for (let channel = 0; channel < 3; channel += 1) sums[to + channel] += data[from + channel];
        sums[to + 3] += 1;
      }
    }
    // The middle counts as much as its neighbours together.
    const smooth = new Float32Array(columns * rows * 3);
    for (let row = 0; row < rows; row += 1) {
      for (let column = 0; column < columns; column += 1) {
        for (let channel = 0; channel < 3; channel += 1) {
          let sum = 0;
          let weight = 0;
          for (const [down, right, counts] of [[0, 0, 4], [-1, 0, 1], [1, 0, 1], [0, -1, 1], [0, 1, 1]]) {
            if (row + down < 0 || row + down >= rows || column + right < 0 || column + right >= columns) continue;
            const at = 4 * ((row + down) * columns + column + right);
            sum += (counts * sums[at + channel]) / sums[at + 3];
            weight += counts;
          }
          smooth[3 * (row * columns + column) + channel] = sum / weight;
        }
      }
    }
    return smooth;
  };
  const [first, second] = [averaged(a), averaged(b)];
  // How far a cell is outside of what the other picture has there and beside it.
  const apart = (from, to, row, column) => {
    const here = 3 * (row * columns + column);
    let most = 0;
    for (let channel = 0; channel < 3; channel += 1) {
      let low = 255;
      let high = 0;
      for (let y = Math.max(0, row - 1); y <= Math.min(rows - 1, row + 1); y += 1) {
        for (let x = Math.max(0, column - 1); x <= Math.min(columns - 1, column + 1); x += 1) {
          const there = to[3 * (y * columns + x) + channel];
          low = Math.min(low, there);
          high = Math.max(high, there);
        }
      }
      most = Math.max(most, low - from[here + channel], from[here + channel] - high);
    }
    return most;
  };
  const differing = new Uint8Array(columns * rows);
  for (let row = 0; row < rows; row += 1) {
    for (let column = 0; column < columns; column += 1) {
      if (Math.max(apart(first, second, row, column), apart(second, first, row, column)) <= near) continue;
      differing[row * columns + column] = 1;
    }
  }
  // A line that is drawn a pixel off differs along its length, a cell thick: that is none.
  const differs = new Uint8Array(columns * rows);
  let count = 0;
  for (let at = 0; at < differs.length; at += 1) {
    const column = at % columns;
    const beside = (column > 0 && differing[at - 1]) || (column < columns - 1 && differing[at + 1]);
    if (!differing[at] || !beside || !(differing[at - columns] || differing[at + columns])) continue;
    differs[at] = 1;
    count += 1;
  }
  // Words of one line that differ are one region: cells that are at most `gap` away belong together.
  const regions = [];
  const seen = new Uint8Array(columns * rows);
  for (let start = 0; start < seen.length; start += 1) {
    if (!differs[start] || seen[start]) continue;
    const region = { cells: 0, left: columns, top: rows, right: 0, bottom: 0 };
    const waiting = [start];
    seen[start] = 1;
    while (waiting.length > 0) {
      const at = waiting.pop();
      const [row, column] = [Math.floor(at / columns), at % columns];
      region.cells += 1;
      region.left = Math.min(region.left, column);
      region.right = Math.max(region.right, column + 1);
      region.top = Math.min(region.top, row);
      region.bottom = Math.max(region.bottom, row + 1);
      for (let y = Math.max(0, row - gap); y <= Math.min(rows - 1, row + gap); y += 1) {
        for (let x = Math.max(0, column - gap); x <= Math.min(columns - 1, column + gap); x += 1) {
          const next = y * columns + x;
          if (differs[next] && !seen[next]) {
            seen[next] = 1;
            waiting.push(next);
          }
        }
      }
    }
    regions.push({ cells: region.cells, box: [region.left, region.top, region.right, region.bottom].map((side) => side * cell) });
  }
  regions.sort((x, y) => y.cells - x.cells);
  return { sizes: null, regions: regions.slice(0, 8), share: count / differs.length };
}
