import { QueryClient } from '@tanstack/react-query';
import { ApiError } from '~/api/client';

export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      // A lost connection is tried again; a refusal is not.
      retry: (failures, error) => failures < 3 && (!(error instanceof ApiError) || error.status === 0 || error.status === 503),
      retryDelay: (failures) => Math.min(500 * 2 ** failures, 4_000),
    },
  },
});
