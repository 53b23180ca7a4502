import { infiniteQueryOptions, queryOptions, type QueryClient } from '@tanstack/react-query';
import { API, call, catalogApi, data, type Catalog } from '~/api/client';
import { upload } from '~/api/upload';

export type Package = Catalog['Package'];
export type Finding = Catalog['PackageFinding'];
export type Change = { op: 'replace'; path: '/enabled' | '/is_public' | '/name' | '/description' | '/tags' | '/categories'; value: unknown };

export interface Filter {
  /** Words of names, descriptions and tags; or, with `exact`, the whole name. */
  text: string;
  exact: boolean;
  type: '' | Package['type'];
  /** Only packages of the project itself. */
  own?: boolean;
}

/** What the filter is to the service (dashboard-and-cli.md A6). */
export function filterQuery({ text, exact, type, own }: Filter): Record<string, string> {
  return { ...(text ? { [exact ? 'name' : 'search']: text } : {}), ...(type ? { type } : {}), ...(own ? { owned: 'true' } : {}) };
}

/** The packages that one may change, also disabled ones. */
export const ownPackagesQuery = (filter: Filter) =>
  infiniteQueryOptions({
    queryKey: ['packages', 'own', filterQuery(filter)],
    initialPageParam: '',
    queryFn: ({ pageParam, signal }) => {
      const query: Record<string, string> = { include_disabled: 'true', order_by: 'name', limit: '50', ...filterQuery(filter) };
      if (pageParam) query['marker'] = pageParam;
      return data(catalogApi.GET('/v1/catalog/packages', { params: { query }, signal }));
    },
    getNextPageParam: (page) => page.next_marker,
  });

export const changePackage = (id: string, changes: Change[], force = false) =>
  call<Package>('PATCH', `/v1/catalog/packages/${id}${force ? '?force=true' : ''}`, JSON.stringify(changes), { 'Content-Type': 'application/murano-packages-json-patch' });

export const deletePackage = (id: string, force: boolean) => catalogApi.DELETE('/v1/catalog/packages/{package_id}', { params: { path: { package_id: id }, query: force ? { force: 'true' } : {} } });

export const downloadOf = (id: string) => `${API}/v1/catalog/packages/${id}/download`;

const formOf = (file: File, metadata?: object) => {
  const form = new FormData();
  if (metadata) form.append('__metadata__', JSON.stringify(metadata));
  form.append('file', file, file.name);
  return form;
};

/** Every finding of an archive; nothing is added. */
export const checkPackage = (file: File, progress: (part: number) => void) => upload<{ findings: Finding[] }>('/v1/catalog/checks', formOf(file), progress);

export const addPackage = (file: File, metadata: { is_public: boolean; enabled: boolean; categories: string[] }, progress: (part: number) => void) =>
  upload<Package>('/v1/catalog/packages', formOf(file, metadata), progress);

/** Puts an archive in the place of a package of its name and version; what is not given stays as it is. */
export const replacePackage = (id: string, file: File, progress: (part: number) => void) => upload<Package>(`/v1/catalog/packages/${id}`, formOf(file), progress, 'PUT');

/** What shows packages anywhere is asked again. */
export const refreshPackages = (queries: QueryClient) => Promise.all(['packages', 'package', 'versions', 'categories'].map((key) => queries.invalidateQueries({ queryKey: [key] })));

/** Where packages can be imported from. */
export const repositoryQuery = queryOptions({
  queryKey: ['repository'],
  queryFn: () => data(catalogApi.GET('/v1/catalog/repository')),
  staleTime: Infinity,
});

/** The packages of a bundle: of its text, or of its name or address. */
export const bundleOf = (body: { text: string } | { source: string }) => data(catalogApi.POST('/v1/catalog/bundles', { body }));

/** Adds a package and what it requires; what came of each. */
export const importPackage = (body: { name?: string; version?: string; url?: string; sha256?: string; is_public: boolean; enabled: boolean; categories: string[] }) =>
  data(catalogApi.POST('/v1/catalog/imports', { body }));
