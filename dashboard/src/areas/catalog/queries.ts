import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query';
import { API, catalogApi, data, errorOf, type Catalog } from '~/api/client';

export type Package = Catalog['Package'];

export interface Wanted {
  search?: string | undefined;
  category?: string | undefined;
  tag?: string | undefined;
}

/** Tiles that fill a large screen; more come when one scrolls to them. */
export const TILES = 24;

/** Applications that can be added, a page at a time; the service searches. */
export const applicationsQuery = ({ search, category, tag }: Wanted) =>
  infiniteQueryOptions({
    queryKey: ['packages', 'applications', search ?? '', category ?? '', tag ?? ''],
    initialPageParam: '',
    queryFn: ({ pageParam, signal }) => {
      const query: Record<string, string> = { type: 'Application', catalog: 'true', order_by: 'name', limit: String(TILES) };
      if (search) query['search'] = search;
      if (category) query['category'] = category;
      if (tag) query['tag'] = tag;
      if (pageParam) query['marker'] = pageParam;
      return data(catalogApi.GET('/v1/catalog/packages', { params: { query }, signal }));
    },
    getNextPageParam: (page) => page.next_marker,
    staleTime: 30_000,
  });

export const categoriesQuery = queryOptions({
  queryKey: ['categories'],
  queryFn: async () => (await data(catalogApi.GET('/v1/catalog/categories', { params: { query: {} } }))).categories,
  staleTime: 60_000,
});

export const logoOf = (id: string) => `${API}/v1/catalog/packages/${id}/logo`;

/** What the author tells about a package; `markdown`: its marks mean something. Empty without such a file. */
export const readmeQuery = (id: string) =>
  queryOptions({
    queryKey: ['package', id, 'readme'],
    queryFn: async () => {
      const answer = await fetch(`${API}/v1/catalog/packages/${id}/readme`);
      if (!answer.ok) throw await errorOf(answer);
      return { text: await answer.text(), markdown: (answer.headers.get('content-type') ?? '').startsWith('text/markdown') };
    },
    staleTime: 60_000,
  });

export const packageQuery = (id: string) =>
  queryOptions({
    queryKey: ['package', id],
    queryFn: () => data(catalogApi.GET('/v1/catalog/packages/{package_id}', { params: { path: { package_id: id } } })),
    staleTime: 60_000,
  });

/** Every version of an application that the project can use, newest first as the service has it. */
export const versionsQuery = (fqn: string) =>
  queryOptions({
    queryKey: ['versions', fqn],
    queryFn: async () => (await data(catalogApi.GET('/v1/catalog/packages', { params: { query: { fqn, catalog: 'true' } } }))).packages,
    enabled: fqn !== '',
    staleTime: 60_000,
  });
