import { Button, Checkbox, Group, NumberInput, PasswordInput, Select, Stack, Textarea, TextInput } from '@mantine/core';
import { IconPlus } from '@tabler/icons-react';
import { memo, type ReactNode } from 'react';
import type { Catalog } from '~/api/client';
import { useTexts } from '~/i18n';
import { messages } from './messages';
import { Rows } from './rows';
import { Several } from './several';

type FormField = Catalog['FormField'];

interface FieldProps {
  field: FormField;
  value: unknown;
  confirmation: unknown;
  errors: string[] | undefined;
  onValue: (name: string, value: unknown) => void;
  onCreating: (field: FormField, made: Catalog['FormPackage']) => void;
}

const text = (value: unknown) => (value === null || value === undefined ? '' : String(value));
/** Choices may be pairs or objects; a select has texts. */
const key = (value: unknown) => JSON.stringify(value ?? null);

/** One field of a form. Every text of it comes from a package's author and is shown as text. A key that is pressed draws its field only. */
export const Field = memo(function Field({ field, value, confirmation, errors, onValue, onCreating }: FieldProps) {
  const t = useTexts(messages);
  const onChange = (given: unknown) => onValue(field.name, given);
  const onConfirm = (given: unknown) => field.confirmation && onValue(field.confirmation, given);
  const onCreate = (made: Catalog['FormPackage']) => onCreating(field, made);
  const shared = {
    label: field.label,
    description: explanation(field, t('stays')),
    required: field.required,
    disabled: !field.enabled,
    error: complaints(errors) ?? field.problem,
    name: field.name,
  };
  switch (field.control) {
    case 'checkbox':
      return <Checkbox {...shared} checked={value === true || value === 'true'} indeterminate={field.kept === true && (value === null || value === undefined)} onChange={(event) => onChange(event.currentTarget.checked)} />;
    case 'number':
      return (
        <NumberInput
          {...shared}
          value={value === null || value === undefined ? '' : (value as number | string)}
          placeholder={field.placeholder ?? undefined}
          min={field.constraints['min_value']}
          max={field.constraints['max_value']}
          clampBehavior="none"
          allowDecimal={field.type !== 'integer'}
          onChange={(given) => onChange(given === '' ? null : given)}
        />
      );
    case 'password':
      return (
        <Stack gap="sm">
          <PasswordInput {...shared} autoComplete="new-password" placeholder={field.filled ? t('password') : (field.placeholder ?? undefined)} value={text(value)} onChange={(event) => onChange(event.currentTarget.value)} />
          {field.confirmation && (
            <PasswordInput label={t('confirm', { label: field.label })} required={field.required} disabled={!field.enabled} autoComplete="new-password" value={text(confirmation)} onChange={(event) => onConfirm(event.currentTarget.value)} />
          )}
        </Stack>
      );
    case 'text':
      return <Textarea {...shared} autosize minRows={3} maxRows={14} placeholder={field.placeholder ?? undefined} value={text(value)} onChange={(event) => onChange(event.currentTarget.value)} />;
    case 'select':
    case 'object':
      return <Choice field={field} shared={shared} value={value} onChange={onChange} onCreate={onCreate} />;
    case 'objects':
      return (
        <Makers field={field} onCreate={onCreate}>
          <Several shared={shared} choices={choicesOf(field, text)} most={field.constraints['max_value']} value={value} onChange={onChange} />
        </Makers>
      );
    case 'table':
      return (
        <Rows label={field.label} description={shared.description} error={shared.error} required={field.required} enabled={field.enabled} columns={field.columns ?? []} least={field.constraints['min_value']} most={field.constraints['max_value']} value={value} onChange={onChange} />
      );
    default:
      return <TextInput {...shared} placeholder={field.placeholder ?? undefined} value={text(value)} onChange={(event) => onChange(event.currentTarget.value)} />;
  }
});

/** Everything that is wrong with a value, a line each. */
function complaints(errors: string[] | undefined): ReactNode {
  return errors && errors.length > 1 ? <span style={{ whiteSpace: 'pre-line' }}>{errors.join('\n')}</span> : errors?.[0];
}

/** What the author says about a field: the help, then the description, under its own title if it has one. `stays`: of one whose value is not known. */
function explanation({ label, help_text: own, description, description_title: title, kept, control }: FormField, stays: string): ReactNode {
  // Inputs that have no place for it say it here.
  const help = kept && ['checkbox', 'table', 'objects'].includes(control) ? [own, stays].filter(Boolean).join('\n') : own;
  if (!description) return help ?? undefined;
  const titled = title && title !== label ? `${title}: ${description}` : description;
  return <span style={{ whiteSpace: 'pre-line' }}>{help ? `${help}\n${titled}` : titled}</span>;
}

/** Packages that have a button each; further ones are in a list. */
const FEW = 3;

interface ChoiceProps {
  field: FormField;
  shared: { label: string; description: ReactNode; required: boolean; disabled: boolean; error: ReactNode; name: string };
  value: unknown;
  onChange: (value: unknown) => void;
  onCreate: (made: Catalog['FormPackage']) => void;
}

function Choice({ field, shared, value, onChange, onCreate }: ChoiceProps) {
  const t = useTexts(messages);
  if (field.choices === null && field.control !== 'object') {
    return <TextInput {...shared} placeholder={field.placeholder ?? undefined} value={text(value)} onChange={(event) => onChange(event.currentTarget.value)} />;
  }
  const byKey = new Map((field.choices ?? []).map((one) => [key(one.value), one.value]));
  const choices = choicesOf(field, key) ?? [];
  // Where "none" is one of the choices, choosing it again is no way to choose nothing at all.
  const emptied = !field.required && !byKey.has(key('')) && !byKey.has(key(null));
  const select = (
    <Select
      {...shared}
      searchable={choices.length > 8}
      clearable={emptied}
      allowDeselect={emptied}
      placeholder={field.empty_label ?? field.placeholder ?? (field.required ? undefined : t('none'))}
      data={choices}
      value={byKey.has(key(value)) ? key(value) : null}
      onChange={(chosen) => onChange(chosen === null ? null : byKey.get(chosen))}
      style={{ flex: 1 }}
    />
  );
  return (
    <Makers field={field} onCreate={onCreate}>
      {select}
    </Makers>
  );
}

/** The choices with their values as texts. Two choices of one value would be one choice. */
function choicesOf({ choices }: FormField, of: (value: unknown) => string) {
  return choices && [...new Map(choices.map((one) => [of(one.value), { value: of(one.value), label: one.label, disabled: one.enabled === false }])).values()];
}

/** An input for components, and below it the packages to create one with. */
function Makers({ field, onCreate, children }: { field: FormField; onCreate: (made: Catalog['FormPackage']) => void; children: ReactNode }) {
  const t = useTexts(messages);
  const packages = field.packages ?? [];
  if (packages.length === 0) return children;
  return (
    <Stack gap={6}>
      {children}
      <Group gap="xs" role="group" aria-label={t('createAria', { label: field.label })}>
        {packages.slice(0, FEW).map((one) => (
          <Button key={one.id} variant="default" size="xs" leftSection={<IconPlus size={14} />} disabled={!field.enabled} onClick={() => onCreate(one)}>
            {t('create', { name: one.name })}
          </Button>
        ))}
        {packages.length > FEW && (
          <Select
            size="xs"
            searchable
            disabled={!field.enabled}
            aria-label={t('createMore', { label: field.label })}
            placeholder={t('createOther', { count: packages.length - FEW })}
            nothingFoundMessage={t('nothing')}
            data={packages.slice(FEW).map((one) => ({ value: one.id, label: `${one.name} ${one.version}` }))}
            value={null}
            onChange={(chosen) => {
              const made = packages.find((one) => one.id === chosen);
              if (made) onCreate(made);
            }}
          />
        )}
      </Group>
    </Stack>
  );
}
