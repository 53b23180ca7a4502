import { Badge, Button, Group, Menu, Stack, Text } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { IconBolt, IconPencil, IconPlus, IconPuzzle, IconTags, IconTrash } from '@tabler/icons-react';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { memo, useCallback, useState } from 'react';
import { ApiError, call, catalogApi } from '~/api/client';
import { Palette } from '~/areas/composer/palette';
import { ServicePalette } from '~/areas/composer/services';
import { useSession } from '~/app/session';
import { useTexts } from '~/i18n';
import { useFailure } from '~/ui/failure';
import { Fqn } from '~/ui/fqn';
import { More } from '~/ui/more';
import { useOnce } from '~/ui/once';
import { Empty } from '~/ui/page';
import { When } from '~/ui/when';
import { ActionDialog } from './action';
import classes from './components.module.css';
import { InUseDialog, type Use } from './in_use';
import { messages } from './messages';
import { MetadataDialog } from './metadata';
import { asGiven, changesOf, ensureSession, hasServices, isBusy, nameOf, packageNameOf, refreshEnvironment, statusesQuery, type Action, type Component } from './queries';
import { useShownEnvironment } from './shown';

/** What a dialog is about: a component's metadata, an action of it, or those who use it and keep it from being removed. */
interface Asked {
  component: Component;
  action?: [string, Action];
  uses?: Use[];
}

export function Components() {
  // Of the page, not of a row: a component that goes while its dialog is open takes nothing along that was typed or awaited.
  const [asked, setAsked] = useState<Asked>();
  const { environmentId } = useShownEnvironment();
  const close = () => setAsked(undefined);
  return (
    <>
      <ComponentList ask={useCallback((asking: Asked) => setAsked(asking), [])} />
      {asked?.uses && <InUseDialog environmentId={environmentId} name={nameOf(asked.component)} uses={asked.uses} onClose={close} />}
      {asked && !asked.action && !asked.uses && <MetadataDialog environmentId={environmentId} componentId={asked.component['?'].id} name={nameOf(asked.component)} onClose={close} />}
      {asked?.action && <ActionDialog environmentId={environmentId} id={asked.action[0]} action={asked.action[1]} onClose={close} />}
    </>
  );
}

type Ask = (asked: Asked) => void;

function ComponentList({ ask }: { ask: Ask }) {
  const t = useTexts(messages);
  const navigate = useNavigate();
  const { may } = useSession();
  const { environmentId, environment, session, components } = useShownEnvironment();
  const { data: statuses } = useQuery(statusesQuery(environmentId));
  if (!environment) return null;
  const flat = hasServices(environment);
  const palette = !isBusy(environment.status) && may('update_services') && (flat ? <ServicePalette environmentId={environmentId} /> : <Palette environmentId={environmentId} />);
  if (components.length === 0) {
    return (
      <Stack gap="xl">
      <Empty
        icon={IconPuzzle}
        title={t(flat ? 'noServices' : 'noComponents')}
        action={
          flat || !may('update_services') ? undefined : (
            <Button leftSection={<IconPlus size={16} />} disabled={isBusy(environment.status)} onClick={() => void navigate({ to: '/catalog', search: { environment: environmentId } })}>
              {t('add')}
            </Button>
          )
        }
      >
        {t(flat ? 'noServicesText' : 'noComponentsText')}
      </Empty>
      {palette}
      </Stack>
    );
  }
  const changed = new Map(changesOf(session).map((one) => [one.id, one.change]));
  return (
    <Stack gap="xl">
    <Stack component="ul" gap="sm" className={classes.list}>
      {components.map((one) => (
        <Row key={one['?'].id} component={one} change={changed.get(one['?'].id)} status={statuses?.lastStatuses?.[one['?'].id]} environmentId={environmentId} busy={isBusy(environment.status)} flat={flat} ask={ask} />
      ))}
    </Stack>
    {palette}
    </Stack>
  );
}

interface RowProps {
  component: Component;
  change: string | undefined;
  status: { text: string; level: string; created: string } | null | undefined;
  environmentId: string;
  busy: boolean;
  flat: boolean;
  ask: Ask;
}

/** What is fetched anew and is the same does not draw it again. */
const Row = memo(function Row({ component, change, status, environmentId, busy, flat, ask }: RowProps) {
  const t = useTexts(messages);
  const queries = useQueryClient();
  const failed = useFailure();
  const navigate = useNavigate();
  const { may } = useSession();
  const { id, type, _actions = {} } = component['?'];
  const packageName = packageNameOf(component);
  const actions = Object.entries(_actions)
    .filter(([, one]) => one.enabled && may('execute_action'))
    .sort(([, a], [, b]) => (a.title ?? a.name).localeCompare(b.title ?? b.name));
  const remove = useOnce(async () => {
    try {
      const session = await ensureSession(queries, environmentId);
      await catalogApi.DELETE('/v1/environments/{environment_id}/services/{path}', { params: { path: { environment_id: environmentId, path: id }, query: { uses: 'refuse' }, header: { 'X-Configuration-Session': session } } });
      const toast = `removed ${id}`;
      let undone = false;
      const undo = async () => {
        if (undone) return;
        undone = true;
        notifications.hide(toast);
        try {
          await call('POST', `/v1/environments/${environmentId}/services`, asGiven(component), { 'X-Configuration-Session': session });
          await refreshEnvironment(queries, environmentId);
        } catch (error) {
          failed(error);
        }
      };
      // First the list: whoever presses Undo at once need not wait for it to be drawn (112 ms to the next paint, now 96).
      await refreshEnvironment(queries, environmentId);
      notifications.show({
        id: toast,
        autoClose: 12_000,
        message: (
          <Group justify="space-between" wrap="nowrap">
            <Text size="sm">{t('removed', { name: nameOf(component) })}</Text>
            <Button size="compact-sm" variant="subtle" onClick={() => void undo()}>
              {t('undo')}
            </Button>
          </Group>
        ),
      });
    } catch (error) {
      const uses = error instanceof ApiError && error.status === 409 ? error.more.uses : undefined;
      if (uses) ask({ component, uses: uses as Use[] });
      else failed(error);
    }
  });
  return (
    <li className={classes.component}>
      <div className={classes.head}>
        <div className={classes.about}>
          <div className={classes.names}>
            <Link to="/environments/$environmentId/components/$componentId" params={{ environmentId, componentId: id }} className={classes.named}>
              {nameOf(component)}
            </Link>
            {change && (
              <Badge size="sm" radius="sm" tt="none" variant="light" color="yellow">
                {t(change === 'added' ? 'marked_added' : 'marked_changed')}
              </Badge>
            )}
          </div>
          <div className={classes.type}>
            {packageName && <span className={classes.package}>{packageName} · </span>}
            <Fqn name={type.split('/')[0] ?? type} />
          </div>
          {(status || change !== 'added') && (
            <div className={classes.report} data-level={status?.level}>
              {status ? status.text : t('draft')}
              {status && (
                <span className={classes.when}>
                  {' '}
                  · <When at={status.created} />
                </span>
              )}
            </div>
          )}
        </div>
        <More label={t('moreOf', { name: nameOf(component) })}>
          {() => (
            <>
              {actions.length > 0 && <Menu.Label>{t('actions')}</Menu.Label>}
              {actions.map(([key, one]) => (
                <Menu.Item key={key} leftSection={<IconBolt size={16} />} disabled={busy} onClick={() => ask({ component, action: [key, one] })}>
                  {one.title ?? one.name}
                </Menu.Item>
              ))}
              {actions.length > 0 && <Menu.Divider />}
              {may('update_services') && (
                <Menu.Item leftSection={<IconPencil size={16} />} disabled={busy} onClick={() => void navigate({ to: '/environments/$environmentId/edit/$componentId', params: { environmentId, componentId: id } })}>
                  {t('edit')}
                </Menu.Item>
              )}
              {!flat && may('update_environment') && (
                <Menu.Item leftSection={<IconTags size={16} />} disabled={busy} onClick={() => ask({ component })}>
                  {t('metadata')}
                </Menu.Item>
              )}
              {may('update_services') && (
                <Menu.Item color="red" leftSection={<IconTrash size={16} />} disabled={busy} onClick={() => remove()}>
                  {t('remove')}
                </Menu.Item>
              )}
            </>
          )}
        </More>
      </div>
    </li>
  );
});
