import { queryOptions } from '@tanstack/react-query';
import { catalogApi, data, type Catalog } from '~/api/client';

export type ListedTemplate = Catalog['ListedTemplate'];

export const templatesQuery = queryOptions({
  queryKey: ['templates'],
  queryFn: async () => (await data(catalogApi.GET('/v1/templates', { params: { query: {} } }))).templates,
});

export const templateQuery = (id: string) =>
  queryOptions({ queryKey: ['templates', id], queryFn: () => data(catalogApi.GET('/v1/templates/{template_id}', { params: { path: { template_id: id } } })) });
