import { useRef } from 'react';

/**
 * What a button does, once at a time: a second press while the first is at work does nothing.
 *
 * For buttons that do not show that they are at work; what `run` is given of a second press is dropped.
 */
export function useOnce<Given extends unknown[]>(run: (...given: Given) => Promise<unknown>): (...given: Given) => void {
  const working = useRef(false);
  return (...given) => {
    if (working.current) return;
    working.current = true;
    void run(...given).finally(() => {
      working.current = false;
    });
  };
}
