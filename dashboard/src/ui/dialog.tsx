import { Group, Modal } from '@mantine/core';
import type { ReactNode } from 'react';
import { useTexts } from '~/i18n';
import { messages } from './messages';

export interface DialogProps {
  opened: boolean;
  onClose: () => void;
  title: ReactNode;
  size?: string | number;
  /** Whether a click beside it closes it: yes, unless said otherwise. */
  beside?: boolean;
  /** Fills a narrow screen. */
  fullScreen?: boolean;
  children: ReactNode;
}

/** A dialog. Its head is no `header` element: a page has one banner only. */
export function Dialog({ opened, onClose, title, size, beside, fullScreen, children }: DialogProps) {
  const t = useTexts(messages);
  return (
    <Modal.Root opened={opened} onClose={onClose} size={size ?? 'md'} fullScreen={fullScreen ?? false} closeOnClickOutside={beside ?? true} centered>
      <Modal.Overlay backgroundOpacity={0.45} blur={2} />
      <Modal.Content radius={fullScreen ? 0 : 'lg'}>
        <Group justify="space-between" wrap="nowrap" px="lg" pt="md" pb="xs">
          <Modal.Title fw={650}>{title}</Modal.Title>
          <Modal.CloseButton aria-label={t('close')} />
        </Group>
        <Modal.Body px="lg">{children}</Modal.Body>
      </Modal.Content>
    </Modal.Root>
  );
}
