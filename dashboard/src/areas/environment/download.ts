// What an action returned, as a file of the reader's own.
export interface ResultFile {
  name: string;
  type: string;
  content: Uint8Array<ArrayBuffer> | string;
  preview: string;
}

interface MuranoFile {
  '?'?: { type?: string };
  filename?: string;
  base64Content?: string;
  mimeType?: string;
}

const PREVIEW = 4_000;

/** The file of a result; null when there is none. A result of `io.murano.File` is the file itself. */
export function fileOf({ isException, result }: { isException?: boolean; result?: unknown }): ResultFile | null {
  if (result === null || result === undefined) return null;
  const file = result as MuranoFile;
  if (typeof result === 'object' && file['?']?.type?.startsWith('io.murano.File') && typeof file.base64Content === 'string') {
    const content = Uint8Array.from(atob(file.base64Content), (letter) => letter.codePointAt(0) ?? 0);
    const text = new TextDecoder().decode(content.slice(0, PREVIEW));
    return { name: safeName(file.filename), type: file.mimeType ?? 'application/octet-stream', content, preview: text };
  }
  const content = JSON.stringify(result, null, 2);
  return { name: isException ? 'exception.json' : 'result.json', type: 'application/json', content, preview: typeof result === 'string' ? result.slice(0, PREVIEW) : content.slice(0, PREVIEW) };
}

export function safeName(given: string | undefined): string {
  const name = (given ?? '').split(/[\\/]/).pop()?.replace(/[^\w. -]+/g, '_').replace(/^\.+/, '') ?? '';
  return name || 'action_result_file';
}

export function download(file: ResultFile) {
  // Whatever type it says it has, the browser saves it and shows nothing.
  const url = URL.createObjectURL(new Blob([file.content], { type: 'application/octet-stream' }));
  const link = document.createElement('a');
  link.href = url;
  link.download = file.name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
