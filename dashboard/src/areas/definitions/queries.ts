import { queryOptions } from '@tanstack/react-query';
import { API, ApiError, call, CSRF, errorOf } from '~/api/client';

const ADMIN = '/repository/v1/admin';
const OCTETS = { 'Content-Type': 'application/octet-stream' };
/** Kinds of files of a definition, in the order in which they are shown. */
export const KINDS = ['manifests', 'workflows', 'ui', 'heat', 'agent', 'scripts'] as const;
export type Kind = (typeof KINDS)[number];

export interface Definition {
  full_service_name: string;
  service_display_name?: string;
  description?: string;
  author?: string;
  service_version?: string | number;
  enabled?: boolean;
  valid: boolean;
  errors?: string[];
  warnings?: string[];
}

export const definitionsQuery = queryOptions({
  queryKey: ['definitions'],
  queryFn: async () => (await call<{ services: Definition[] }>('GET', `${ADMIN}/services`)).services,
});

const serviceOf = (name: string) => `${ADMIN}/services/${encodeURIComponent(name)}`;

/** What the manifest says, what is wrong, and the files as `kind/path`: those that are listed. */
export const definitionQuery = (name: string) =>
  queryOptions({
    queryKey: ['definitions', name],
    queryFn: async () => {
      const [info, files] = await Promise.all([call<Definition>('GET', `${serviceOf(name)}/info`), call<Record<string, unknown>>('GET', serviceOf(name))]);
      const listed = KINDS.flatMap((kind) => (kind === 'manifests' ? [`${name}-manifest.yaml`] : Array.isArray(files[kind]) ? (files[kind] as string[]) : []).map((path) => `${kind}/${path}`));
      return { info, files: [...new Set(listed)] };
    },
  });

const addressOf = (file: string) => `${ADMIN}/${file.split('/').map(encodeURIComponent).join('/')}`;

export const fileQuery = (file: string) =>
  queryOptions({
    queryKey: ['definitions', 'file', file],
    queryFn: async () => {
      const answer = await fetch(`${API}${addressOf(file)}`, { headers: CSRF });
      if (!answer.ok) throw await errorOf(answer);
      const content = await answer.arrayBuffer();
      try {
        return new TextDecoder('utf-8', { fatal: true }).decode(content);
      } catch {
        throw new ApiError(415, 'binary', `${file} is no text`);
      }
    },
    staleTime: Infinity,
    retry: false,
  });

/** Stores a file; what the repository finds wrong with the services that list it. */
export async function saveFile(file: string, text: string): Promise<string[]> {
  const saved = await call<{ warnings?: string[] }>('PUT', `${addressOf(file)}?overwrite=true`, new Blob([text]), OCTETS);
  return saved.warnings ?? [];
}

export async function uploadDefinition(archive: Blob, overwrite: boolean): Promise<string[]> {
  const saved = await call<{ warnings?: string[] }>('POST', `${ADMIN}/services${overwrite ? '?overwrite=true' : ''}`, archive, OCTETS);
  return saved.warnings ?? [];
}

export const toggleDefinition = (name: string) => call('POST', `${serviceOf(name)}/toggle_enabled`, {});
export const removeDefinition = (name: string) => call('DELETE', serviceOf(name));
export const archiveOf = (name: string) => `${API}/repository/v1/client/services/${encodeURIComponent(name)}`;
