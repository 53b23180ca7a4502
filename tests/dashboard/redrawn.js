// A picture drawn again, with noise or a break that test_pictures.py names.
async ([picture, change]) => {
  const bytes = Uint8Array.from(atob(picture), (letter) => letter.charCodeAt(0));
  const bitmap = await createImageBitmap(new Blob([bytes]));
  const { width, height } = bitmap;
  const canvas = new OffscreenCanvas(width, height);
  const context = canvas.getContext('2d');
  context.drawImage(bitmap, 0, 0);
  if (change.startsWith('filter: ')) {
    context.filter = change.slice(8);
    context.drawImage(bitmap, 0, 0);
  } else if (change.startsWith('transform')) context.drawImage(bitmap, 1, 1);
  else if (change === 'below') context.drawImage(bitmap, 0, 56, width, height - 56, 0, 72, width, height - 56);
  else if (change === 'narrow') context.drawImage(bitmap, 0, 56, width, height - 56, 0, 56, width * 0.9, height - 56);
  else if (change === 'gone') {
    // The second fifth of the height, where every page has its title or its first tiles.
    const [red, green, blue] = context.getImageData(width - 4, height / 2, 1, 1).data;
    context.fillStyle = `rgb(${red} ${green} ${blue})`;
    context.fillRect(width / 4, height / 10, width / 2, height / 5);
  } else if (change === 'inverted') {
    context.filter = 'invert(1)';
    context.drawImage(bitmap, 0, 0);
  }
  const made = new Uint8Array(await (await canvas.convertToBlob({ type: 'image/webp', quality: 0.6 })).arrayBuffer());
  let text = '';
  for (const byte of made) text += String.fromCharCode(byte);
  return btoa(text);
}
