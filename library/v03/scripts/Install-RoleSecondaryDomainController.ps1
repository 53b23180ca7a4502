function Install-RoleSecondaryDomainController {
    # Makes this member of a domain one of its controllers; it restarts afterwards.
    param(
        [Parameter(Mandatory)] [string] $DomainName,
        [Parameter(Mandatory)] [string] $UserName,
        [Parameter(Mandatory)] [string] $Password,
        [Parameter(Mandatory)] [string] $SafeModePassword
    )
    if ((Get-CimInstance Win32_ComputerSystem).DomainRole -ge 4) {
        Write-Log 'This machine is a domain controller already'
        return
    }
    Install-Feature -Name AD-Domain-Services, DNS
    Import-Module ADDSDeployment
    $secret = ConvertTo-SecureString -String $SafeModePassword -AsPlainText -Force
    Install-ADDSDomainController -DomainName $DomainName -SafeModeAdministratorPassword $secret `
        -Credential (ConvertTo-Credential "$DomainName\$UserName" $Password) `
        -InstallDns -NoRebootOnCompletion -Force | Out-Null
    Write-Log "This machine is a controller of $DomainName"
}
