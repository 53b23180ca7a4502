import { notifications } from '@mantine/notifications';
import { ApiError } from '~/api/client';
import { useTexts } from '~/i18n';
import { messages } from './messages';

/** What an error says to people: what happened, and what to do. */
export function useExplained() {
  const t = useTexts(messages);
  return (error: unknown): { text: string; request: string } => {
    if (!(error instanceof ApiError)) return { text: error instanceof Error ? error.message : String(error), request: '' };
    if (error.status === 0) return { text: t('offline'), request: '' };
    const request = error.status >= 500 && error.requestId ? t('request', { id: error.requestId }) : '';
    return { text: error.message || t('forbidden'), request };
  };
}

/** Shows the error of an action that was asked for. */
export function useFailure() {
  const t = useTexts(messages);
  const explained = useExplained();
  return (error: unknown) => {
    if (error instanceof ApiError && error.status === 401) return; // the sign-in page says so
    const { text, request } = explained(error);
    notifications.show({ color: 'red', title: t('failed'), message: [text, request].filter(Boolean).join(' '), autoClose: 12_000, withBorder: true });
  };
}

/** Says what came of something that was done with many: how many, how many were skipped, which failed and why. */
export function useOutcome() {
  const t = useTexts(messages);
  const explained = useExplained();
  return ({ done, skipped, failed }: { done: string[]; skipped: string[]; failed: [string, unknown][] }) => {
    const counts = [t('outcomeDone', { count: done.length }), skipped.length > 0 && t('outcomeSkipped', { count: skipped.length, names: skipped.join(', ') })];
    const problems = failed.map(([name, error]) => `${name}: ${explained(error).text}`);
    const message = [...counts, ...problems].filter(Boolean).join('\n');
    notifications.show({ message, style: { whiteSpace: 'pre-line' }, withBorder: true, autoClose: problems.length > 0 ? 12_000 : 6_000, ...(problems.length > 0 ? { color: 'red', title: t('failed') } : {}) });
  };
}
