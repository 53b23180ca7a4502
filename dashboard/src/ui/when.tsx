import { Tooltip } from '@mantine/core';
import { useEffect, useState } from 'react';
import { useLanguage } from '~/i18n';
import { duration, exact, moment, relative } from '~/i18n/times';

// One clock for all moments on a page.
const listeners = new Set<(now: number) => void>();
let timer: ReturnType<typeof setInterval> | undefined;

export function useNow(): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    listeners.add(setNow);
    timer ??= setInterval(() => listeners.forEach((tell) => tell(Date.now())), 10_000);
    return () => {
      listeners.delete(setNow);
      if (listeners.size === 0) {
        clearInterval(timer);
        timer = undefined;
      }
    };
  }, []);
  return now;
}

/** A moment as people say it; the exact one on hover and for screen readers. */
export function When({ at }: { at: string | null | undefined }) {
  const { language } = useLanguage();
  const now = useNow();
  const date = moment(at);
  if (!date) return <span>–</span>;
  return (
    <Tooltip label={exact(date, language)}>
      <time dateTime={date.toISOString()}>{relative(date, Math.max(now, Date.now()), language)}</time>
    </Tooltip>
  );
}

/** How long something took, or takes so far. */
export function Lasts({ seconds }: { seconds: number }) {
  return <time dateTime={`PT${Math.max(0, Math.round(seconds))}S`}>{duration(seconds)}</time>;
}
