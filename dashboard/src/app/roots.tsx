import type { QueryClient } from '@tanstack/react-query';
import { createRootRouteWithContext, createRoute, Outlet, redirect } from '@tanstack/react-router';
import { ApiError } from '~/api/client';
import { PageError, PageMissing } from '~/ui/page';
import { sessionQuery } from './session';
import { Shell } from './shell';

export const rootRoute = createRootRouteWithContext<{ queries: QueryClient }>()({
  component: Outlet,
  notFoundComponent: () => (
    <main>
      <PageMissing />
    </main>
  ),
  errorComponent: PageError,
});

/** Everything that needs a session, inside the navigation. */
export const shellRoute = createRoute({
  getParentRoute: () => rootRoute,
  id: 'shell',
  component: Shell,
  errorComponent: PageError,
  beforeLoad: async ({ context, location }) => {
    try {
      await context.queries.ensureQueryData(sessionQuery);
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) {
        throw redirect({ to: '/sign-in', search: { next: location.href } });
      }
      throw error;
    }
  },
});
