import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import react from '@vitejs/plugin-react';
import { defineConfig, type Plugin } from 'vite';

// The service sends what was compressed here; it compresses nothing itself.
function compressed(directory: string): Plugin {
  return {
    name: 'vetro-compressed',
    apply: 'build',
    closeBundle() {
      for (const name of readdirSync(join(directory, 'assets'))) {
        if (!/\.(js|css|svg)$/.test(name)) continue;
        const file = join(directory, 'assets', name);
        const content = readFileSync(file);
        writeFileSync(`${file}.gz`, gzipSync(content, { level: 9 }));
        writeFileSync(`${file}.br`, brotliCompressSync(content));
      }
    },
  };
}

const output = join(import.meta.dirname, '../src/vetro/_dashboard');

export default defineConfig({
  base: '/dashboard/',
  plugins: [react(), compressed(output)],
  resolve: { alias: { '~': join(import.meta.dirname, 'src') } },
  build: {
    outDir: output,
    emptyOutDir: true,
    target: 'es2022',
    // Small files inlined as data: addresses would be refused by the Content-Security-Policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    manifest: 'manifest.json',
    chunkSizeWarningLimit: 900,
    // A browser asks for six files at a time: what every page needs is one, and small shared parts lie together.
    rolldownOptions: {
      output: {
        codeSplitting: {
          groups: [
            { name: 'first', tags: ['$initial'], priority: 1 },
            { name: 'shared', test: /node_modules|src\/(ui|api|i18n)/, entriesAware: true, entriesAwareMergeThreshold: 30_000 },
          ],
        },
      },
    },
  },
  server: { proxy: { '/dashboard/api': 'http://127.0.0.1:8082' } },
});
