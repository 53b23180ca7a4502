// Writes src/api/generated/NAME.d.ts for each OpenAPI document in the directory given.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import openapiTS, { astToString } from 'openapi-typescript';

const [documents] = process.argv.slice(2);
const target = join(import.meta.dirname, 'src/api/generated');
mkdirSync(target, { recursive: true });
for (const file of readdirSync(documents)) {
  if (!file.endsWith('.json')) continue;
  const document = JSON.parse(readFileSync(join(documents, file), 'utf8'));
  const text = astToString(await openapiTS(document, { alphabetize: true }));
  writeFileSync(join(target, `${basename(file, '.json')}.d.ts`), text);
}
