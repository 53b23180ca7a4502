import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { shellRoute } from '~/app/roots';

/** The dialog that is open. */
type Wanted = { upload?: boolean; import?: boolean; categories?: boolean; edit?: string };

const packagesRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: '/packages',
  validateSearch: (search: Record<string, unknown>): Wanted => ({
    ...(search['upload'] === true ? { upload: true } : {}),
    ...(search['import'] === true ? { import: true } : {}),
    ...(search['categories'] === true ? { categories: true } : {}),
    ...(typeof search['edit'] === 'string' ? { edit: search['edit'] } : {}),
  }),
  component: lazyRouteComponent(() => import('./page'), 'Packages'),
});

export const packagesRoutes = [packagesRoute] as const;
