import RFB from '@novnc/novnc';
import { useEffect, useRef } from 'react';
import { call } from '~/api/client';
import { useTexts } from '~/i18n';
import classes from './page.module.css';
import { messages } from './messages';
import { openStream, watch, type Condition, type Machine } from './stream';

interface ScreenProps {
  machine: Machine;
  changed: (condition: Condition) => void;
  /** Gets what sends Ctrl+Alt+Del, while there is a screen. */
  onReset: (reset: (() => void) | undefined) => void;
}

/** The screen of a virtual machine (VNC). A new `key` connects again. */
export function Screen({ machine: { serverId, vmId }, changed, onReset }: ScreenProps) {
  const t = useTexts(messages);
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const holder = place.current;
    let client: RFB | undefined;
    let over = false;
    const begin = async () => {
      const vm = await call<{ vnc_password?: string }>('GET', `/compute/servers/${encodeURIComponent(serverId)}/vms/${encodeURIComponent(vmId)}`);
      if (over || !holder) return;
      const socket = openStream('screen', { serverId, vmId });
      watch(socket, changed);
      client = new RFB(holder, socket, { credentials: { password: vm.vnc_password ?? '' } });
      client.scaleViewport = true;
      client.background = 'transparent';
      client.addEventListener('connect', () => {
        changed({ told: { type: 'open', interactive: true } });
        onReset(() => client?.sendCtrlAltDel());
        client?.focus();
      });
      client.addEventListener('securityfailure', () => changed({ told: { type: 'error', message: t('refused') } }));
      client.addEventListener('disconnect', () => onReset(undefined));
    };
    begin().catch((error: unknown) => changed({ told: { type: 'error', message: error instanceof Error ? error.message : String(error) } }));
    return () => {
      over = true;
      onReset(undefined);
      client?.disconnect();
    };
  }, [serverId, vmId, changed, onReset, t]);
  return <div ref={place} className={classes.screen} data-console />;
}
