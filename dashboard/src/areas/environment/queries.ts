import { queryOptions } from '@tanstack/react-query';
import { catalogApi, data, type Catalog } from '~/api/client';

export type Environment = Catalog['Environment'];
export type ListedEnvironment = Catalog['ListedEnvironment'];
export type Deployment = Catalog['Deployment'];
export type Report = Catalog['Report'];

const IN_PROGRESS = new Set(['deploying', 'deleting']);

export const isBusy = (status: string) => IN_PROGRESS.has(status);

export const environmentsQuery = queryOptions({
  queryKey: ['environments'],
  queryFn: async () => (await data(catalogApi.GET('/v1/environments'))).environments,
  refetchInterval: (query) => (query.state.data?.some((one) => isBusy(one.status)) ? 2_000 : 15_000),
});
