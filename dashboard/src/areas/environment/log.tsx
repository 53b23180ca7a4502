import { Alert, Anchor, Group, Select, Switch, Text } from '@mantine/core';
import { IconPlugConnectedX } from '@tabler/icons-react';
import { useVirtualizer } from '@tanstack/react-virtual';
import { Fragment, memo, useEffect, useMemo, useRef, useState } from 'react';
import type { Followed, Report } from '~/api/events';
import { useLanguage, useTexts } from '~/i18n';
import { exact, moment } from '~/i18n/times';
import classes from './log.module.css';
import { messages } from './messages';

const LINK = /(https?:\/\/[^\s<>"'`]+[^\s<>"'`.,;:!?)\]])/g;

/** A report's text; addresses in it are links. It is text: whatever it says, nothing of it is markup. */
export const Linked = memo(function Linked({ text }: { text: string }) {
  const parts = text.split(LINK);
  return (
    <>
      {parts.map((part, index) =>
        index % 2 === 1 ? (
          <Anchor key={index} href={part} target="_blank" rel="noopener noreferrer nofollow" inherit underline="always">
            {part}
          </Anchor>
        ) : (
          <Fragment key={index}>{part}</Fragment>
        ),
      )}
    </>
  );
});

/** The reports of a deployment as they come; only the lines in sight are drawn. `days`: they are of several, so each has its date. */
export function Log({ followed, names, days = false }: { followed: Followed; names: ReadonlyMap<string, string>; days?: boolean }) {
  const t = useTexts(messages);
  const { language } = useLanguage();
  const [level, setLevel] = useState<string | null>(null);
  const [component, setComponent] = useState<string | null>(null);
  const [follow, setFollow] = useState(true);
  const ground = useRef<HTMLDivElement>(null);
  const nameOf = (one: Report) => (one.entity_id ? (names.get(one.entity_id) ?? one.entity ?? '') : '');
  const shown = useMemo(
    () => followed.reports.filter((one) => (!level || one.level === level || (level === 'warning' && one.level === 'error')) && (!component || one.entity_id === component)),
    [followed.reports, level, component],
  );
  const entities = useMemo(() => [...new Set(followed.reports.flatMap((one) => (one.entity_id ? [one.entity_id] : [])))].filter((id) => names.has(id)), [followed.reports, names]);
  const rows = useVirtualizer({ count: shown.length, getScrollElement: () => ground.current, estimateSize: () => 26, overscan: 20, getItemKey: (index) => shown[index]?.id ?? index });
  useEffect(() => {
    if (follow && shown.length > 0) rows.scrollToIndex(shown.length - 1, { align: 'end' });
  }, [follow, shown.length, rows]);
  return (
    <div>
      <Group mb="sm" gap="md">
        <Select size="xs" aria-label={t('level')} placeholder={t('allLevels')} clearable w={170} value={level} onChange={setLevel} data={[{ value: 'warning', label: t('warnings') }, { value: 'error', label: t('errors') }]} />
        {entities.length > 0 && !days && (
          <Select size="xs" aria-label={t('component')} placeholder={t('allComponents')} clearable w={200} value={component} onChange={setComponent} data={entities.map((id) => ({ value: id, label: names.get(id) ?? id }))} />
        )}
        <Switch size="sm" label={t('follow')} checked={follow} onChange={(event) => setFollow(event.currentTarget.checked)} ms="auto" />
      </Group>
      {followed.lost && (
        <Alert mb="sm" color="yellow" variant="light" icon={<IconPlugConnectedX size={18} />}>
          {t('lost')}
        </Alert>
      )}
      <div
        ref={ground}
        className={classes.ground}
        role="log"
        aria-label={t('log')}
        tabIndex={0}
        onWheel={(event) => {
          if (event.deltaY < 0) setFollow(false);
        }}
      >
        {shown.length === 0 && (
          <Text size="sm" c="dimmed" p="sm">
            {followed.ended ? t('noReports') : t('noReportsYet')}
          </Text>
        )}
        <div className={classes.rows} style={{ height: rows.getTotalSize() }}>
          {rows.getVirtualItems().map((row) => {
            const one = shown[row.index];
            if (!one) return null;
            const date = moment(one.created);
            return (
              <div key={row.key} ref={rows.measureElement} data-index={row.index} className={classes.row} data-level={one.level} style={{ transform: `translateY(${row.start}px)` }}>
                <time className={classes.time} dateTime={date?.toISOString()} title={date ? exact(date, language) : ''}>
                  {days ? date?.toLocaleString(language, { hourCycle: 'h23', dateStyle: 'short', timeStyle: 'medium' }) : date?.toLocaleTimeString(language, { hourCycle: 'h23' })}
                </time>
                {nameOf(one) && <span className={classes.entity}>{nameOf(one)}</span>}
                <span className={classes.text}>
                  <Linked text={one.text} />
                </span>
              </div>
            );
          })}
        </div>
      </div>
    </div>
  );
}
