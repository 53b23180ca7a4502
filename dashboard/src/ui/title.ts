import { useDocumentTitle } from '@mantine/hooks';
import { useQueryClient } from '@tanstack/react-query';
import { sessionQuery } from '~/app/session';

/** The window's title: what the page is, and what the operator calls this dashboard. */
export function useTitle(title: string) {
  const known = useQueryClient().getQueryData(sessionQuery.queryKey);
  useDocumentTitle(`${title} · ${known?.settings.title ?? 'Vetro'}`);
}
